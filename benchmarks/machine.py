"""What a benchmark ran on."""

import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

from balar_core import BalarError

PACKAGES = ("balar", "jax", "jaxlib", "numpy", "torch", "inferactively-pymdp", "pyagrum")


class NoDevice(BalarError):
    """The device that was asked for is not there."""


def use_device(kind: str) -> jax.Device:
    """Make `"cpu"` or `"gpu"` the device of everything that follows.

    Raises:
        NoDevice: JAX sees no such device.
    """
    try:
        device = jax.devices(kind)[0]
    except RuntimeError:
        raise NoDevice(
            f"JAX sees no {kind}. Install the CUDA extra (pip install 'balar[cuda]') on a machine "
            "that has one, or give --device cpu."
        ) from None
    jax.config.update("jax_default_device", device)
    return device


def describe(device: jax.Device) -> dict[str, Any]:
    """Processor, memory, device, load and versions, as JSON-able values."""
    return {
        "processor": _processor(),
        "cores": cores(),
        "memory_bytes": _memory(),
        "system": f"{platform.system()} {platform.machine()}",
        "device": device.platform,
        "device_kind": device.device_kind,
        "load_average": _load(),
        "python": platform.python_version(),
        "versions": {name: v for name in PACKAGES if (v := _version(name)) is not None},
    }


def cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    named = {key.strip(): value.strip() for key, value in fields.items()}
    flags = named.get("flags", "").split()
    widest = next((f for f in ("avx512f", "avx2", "avx") if f in flags), None)
    return named.get("model name", platform.machine()) + (f" ({widest})" if widest else "")


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def _load() -> float | None:
    """Programs wanting to run when the benchmark began, averaged over a minute."""
    try:
        return round(os.getloadavg()[0], 2)
    except (AttributeError, OSError):
        return None


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
