"""What a saved dialogue may not decide alone: where to send keys and private files.

A saved dialogue names the server and the key that it was held with. One that comes from a stranger
could so have the key of whoever goes on with it sent to another host, or a file of theirs. What
the command line says itself is trusted, and so is a server on this computer.
"""

from pathlib import Path

import click

from .model_choice import KEY_VARIABLE, ModelChoice
from .terminal import interactive

__all__ = ["check_trust", "wishes"]


def wishes(typed: ModelChoice, kept: ModelChoice) -> list[str]:
    """What a saved choice wants that the command line does not say, and that could harm.

    Args:
        typed: what the command line says.
        kept: what the saved dialogue says.

    >>> wishes(ModelChoice(), ModelChoice("https://far.example/v1", key_env="MY_KEY"))
    ['to call https://far.example/v1', 'to send it the key in MY_KEY']
    >>> wishes(ModelChoice(), ModelChoice("http://localhost:8000/v1", key_env="MY_KEY"))
    []
    """
    from ..models.http import is_local

    merged = typed.over(kept)
    if merged.base_url is None or is_local(merged.base_url):
        return []
    found = []
    if typed.base_url is None:
        found.append(f"to call {merged.base_url}")
    if kept.key_env not in (None, KEY_VARIABLE, typed.key_env) and merged.key_file is None:
        found.append(f"to send it the key in {kept.key_env}")
    if kept.key_file not in (None, typed.key_file) and merged.key_file == kept.key_file:
        found.append(f"to send it the key in {kept.key_file}")
    if kept.allow_plain_http and not typed.allow_plain_http:
        found.append("to send keys unencrypted")
    if kept.info and not typed.info:
        found.append(f"to show it what is in {', '.join(map(str, kept.private_files().values()))}")
    return found


def check_trust(file: Path, typed: ModelChoice, kept: ModelChoice) -> None:
    """Let the user confirm what a saved dialogue wants.

    Raises:
        click.UsageError: the user says no, or nobody is there to say yes.
    """
    found = wishes(typed, kept)
    if not found:
        return
    wanted = f"{file} wants " + ", and ".join(found) + "."
    if interactive():
        if click.confirm(f"{wanted} Do you trust it?", err=True):
            return
        raise click.UsageError("Nothing was sent. Name another server with --base-url.")
    raise click.UsageError(
        f"{wanted} If you trust it, say so with --trust; or name the server and the key yourself: "
        "--base-url URL --key-env VARIABLE."
    )
