"""`balar doctor`: what is installed, whether it computes right, and what a server can do."""

import platform
from importlib.metadata import PackageNotFoundError, version

import click

from .model_choice import ModelChoice

__all__ = ["doctor"]

PACKAGES = ("balar", "jax", "jaxlib", "numpy", "equinox", "optax", "pydantic", "rich")

INFORMATION = 0.1628578414917986
"""Mutual information of the check, in nats: computed in float64, independently of this package."""


@click.command("doctor", short_help="Show versions and devices, and check the arithmetic.")
@click.option("--base-url", metavar="URL", help="Also ask this server what it can do...")
@click.option("--model", metavar="NAME", help="...with this model.")
@click.option("--key-env", metavar="VARIABLE", help="As for balar solve.")
@click.option("--key-file", metavar="FILE", help="As for balar solve.")
def doctor(
    base_url: str | None, model: str | None, key_env: str | None, key_file: str | None
) -> None:
    """Show versions, the JAX backend and its devices, and check the arithmetic on a known case.

    With --base-url and --model, also ask a server of language models two short questions, and tell
    which of the things that balar solve makes use of it does.
    """
    import jax
    import jax.numpy as jnp

    click.echo(f"{'python':<12}{platform.python_version()} ({platform.platform()})")
    for package in PACKAGES:
        click.echo(f"{package:<12}{_version(package)}")
    click.echo(f"{'backend':<12}{jax.default_backend()}")
    for device in jax.devices():
        click.echo(f"{'device':<12}{device} ({device.device_kind})")
    click.echo(f"{'precision':<12}{jnp.zeros(()).dtype}")
    information = _information()
    error = abs(information - INFORMATION)
    fine = error <= 1e-6
    click.echo(
        f"{'self-check':<12}{'fine' if fine else 'WRONG'}: a question known to tell "
        f"{INFORMATION:.7f} nats is computed to tell {information:.7f} (off by {error:.0e})"
    )
    if not fine:
        raise click.exceptions.Exit(1)
    if base_url is not None or model is not None:
        _ask_server(ModelChoice(base_url, model, key_env=key_env, key_file=key_file))


def _ask_server(choice: ModelChoice) -> None:
    import asyncio

    from ..models import probe
    from ..printable import printable

    found = asyncio.run(probe(choice.open()[""]))
    follows = "and was followed" if found.follows_schema else "but was NOT followed"
    tokens = "told" if found.tells_tokens else "not told: budgets of tokens and cost do not work"
    name = printable(found.model) or "a model without a name"
    click.echo(f"{'server':<12}{name} replied after {found.seconds:.1f} s")
    click.echo(f"{'schema':<12}asked for as {' -> '.join(found.formats)}, {follows}")
    click.echo(f"{'tokens':<12}{tokens}")
    click.echo(f"{'logprobs':<12}{'told' if found.tells_logprobs else 'not told'}")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _information() -> float:
    """The information of one question on six states, by the code that dialogues run."""
    from balar_core.belief import Belief
    from balar_core.information import mutual_information
    from balar_core.space import StateSpace
    from balar_core.tables import LikelihoodTables

    space = StateSpace.of(kind=["a", "b"], cause=["x", "y", "z"])
    belief = Belief.from_priors(space, [(0.8, 0.2), (0.5, 0.3, 0.2)])
    given = [((0.8, 0.2), (0.2, 0.8)), ((0.5, 0.5), (0.8, 0.2), (0.2, 0.8))]
    tables = LikelihoodTables.build(space, [2], {(0, 0): given})
    return float(mutual_information(belief, tables)[0, 0])
