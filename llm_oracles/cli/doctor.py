"""`balar doctor`: what is installed, what it runs on, and whether it computes right."""

import platform
from importlib.metadata import PackageNotFoundError, version

import click

__all__ = ["doctor"]

PACKAGES = ("balar", "jax", "jaxlib", "numpy", "equinox", "optax", "pydantic", "rich")

INFORMATION = 0.1628578414917986
"""Mutual information of the check, in nats: computed in float64, independently of this package."""


@click.command("doctor", short_help="Show versions and devices, and check the arithmetic.")
def doctor() -> None:
    """Show versions, the JAX backend and its devices, and check the arithmetic on a known case."""
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
