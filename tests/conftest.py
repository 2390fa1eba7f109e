"""What all tests share: strict broadcasting, hypothesis profiles, fixtures."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import jax
import pytest
from hypothesis import HealthCheck, settings

from llm_oracles.cli import main

from .commands import Balar

# A program that a test starts; what it imports need not be installed.
collect_ignore = ["mcp_town.py"]

ROOT = Path(__file__).resolve().parents[1]

# Arrays of different rank never meet by accident: a broadcast is written out.
jax.config.update("jax_numpy_rank_promotion", "raise")

# The function-scoped check is off because `x64` is meant to hold for all the
# examples of a test. It stays wrong to use a fixture that an example changes.
_SHARED = settings(
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
settings.register_profile("default", _SHARED, max_examples=50, derandomize=True)
settings.register_profile("thorough", _SHARED, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(params=[False, True], ids=["float32", "float64"])
def x64(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Run the test twice: in single and in double precision.

    The value says whether double precision is on.
    """
    with jax.enable_x64(request.param):
        yield request.param


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder `shared` beside the checkout, or a skipped test without it."""
    path = ROOT.parent / "shared"
    if not path.is_dir():
        pytest.skip("needs the folder 'shared' beside the checkout, which is not there")
    return path


@pytest.fixture
def balar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Balar:
    """The command, run in this process: its exit code, its output, its errors."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["balar", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        assert isinstance(ended.value.code, int)
        return ended.value.code, *capsys.readouterr()

    return run
