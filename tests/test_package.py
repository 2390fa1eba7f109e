"""The package as installed: its version, its parts, what importing it costs."""

import subprocess
import sys
from importlib.metadata import version
from importlib.resources import files

import jax.numpy as jnp
import pytest
from packaging.version import Version

import balar_core


def test_version_is_canonical_and_single_sourced() -> None:
    assert str(Version(balar_core.__version__)) == balar_core.__version__
    assert version("balar") == balar_core.__version__


@pytest.mark.parametrize("package", ["balar_core", "llm_oracles"])
def test_package_is_marked_as_typed(package: str) -> None:
    assert files(package).joinpath("py.typed").is_file()


def test_core_imports_nothing_that_talks_to_the_outside() -> None:
    outside = ["click", "httpx", "llm_oracles", "pydantic", "rich", "yaml"]
    program = (
        "import pkgutil, sys, importlib, balar_core\n"
        "for module in pkgutil.walk_packages(balar_core.__path__, 'balar_core.'):\n"
        "    importlib.import_module(module.name)\n"
        f"print(sorted(set({outside!r}) & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[]\n"


def test_x64_sets_the_default_precision(x64: bool) -> None:
    assert jnp.zeros(()).dtype == (jnp.float64 if x64 else jnp.float32)


def test_arrays_of_different_rank_do_not_broadcast() -> None:
    with pytest.raises(ValueError, match="rank_promotion"):
        jnp.ones((2, 3)) + jnp.ones(3)
