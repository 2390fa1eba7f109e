"""Training runs in files: all that is needed to go on, bit for bit."""

import hashlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from balar_core.errors import InvalidInput, InvalidSetting
from balar_core.numerics import as_array
from balar_core.policy import QuestionPolicy
from balar_core.simulation import World

from ..store import FileTrouble, write_whole
from .loop import StepRecord, Training
from .settings import TrainingSettings

__all__ = ["UnusableCheckpoint", "load_policy", "load_training", "save_training", "worlds_digest"]

FORMAT = "balar training 1"


class UnusableCheckpoint(InvalidInput):
    """A file that is no checkpoint, or one of another run."""


def worlds_digest(worlds: World) -> str:
    """A digest of stacked worlds, by which a run recognises the worlds it learned from."""
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(worlds):
        array = np.ascontiguousarray(leaf)
        digest.update(f"{array.dtype} {array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


def save_training(training: Training, path: Path, worlds: World) -> None:
    """Save a run, whole or not at all.

    Raises:
        FileTrouble: the file cannot be written.
    """
    header = {
        "format": FORMAT,
        "settings": training.settings.to_data(),
        "worlds": worlds_digest(worlds),
    }
    content = io.BytesIO()
    arrays: dict[str, Any] = {
        "header": np.array(json.dumps(header)),
        "history": np.array(training.history, np.float64).reshape(-1, len(StepRecord._fields)),
        **{f"leaf {i}": np.asarray(leaf) for i, leaf in enumerate(_leaves(training))},
    }
    np.savez(content, **arrays)
    write_whole(path, content.getvalue())


def load_training(path: Path, worlds: World) -> Training:
    """Read a run, to go on with it in the same worlds.

    Raises:
        FileTrouble: the file cannot be read.
        UnusableCheckpoint: it is no checkpoint, or one of a run in other worlds.
    """
    training, digest = _read(path)
    if digest != worlds_digest(worlds):
        raise UnusableCheckpoint(
            f"{path} belongs to a run in other worlds; name the same problem and the same options."
        )
    return training


def load_policy(path: Path) -> QuestionPolicy:
    """The policy of a run, wherever it was trained.

    Raises:
        FileTrouble: the file cannot be read.
        UnusableCheckpoint: it is no checkpoint.
    """
    return _read(path)[0].policy


def _read(path: Path) -> tuple[Training, str]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FileTrouble(f"{path} cannot be read: {error.strerror or error}.") from None
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            header = json.loads(str(arrays["header"]))
            if header["format"] != FORMAT:
                raise UnusableCheckpoint(
                    f"{path} is a {header['format']!r}; this version of balar reads {FORMAT!r}."
                )
            return _training(header["settings"], arrays), str(header["worlds"])
    except (zipfile.BadZipFile, EOFError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, UnusableCheckpoint):
            raise
        reason = f" ({error})" if isinstance(error, InvalidSetting) else ""
        raise UnusableCheckpoint(f"{path} is no checkpoint of a training run{reason}.") from None


def _training(settings: dict[str, Any], arrays: Any) -> Training:
    template = Training.start(TrainingSettings.from_data(settings))
    dynamic, static = eqx.partition((template.policy, template.optimiser), eqx.is_array)
    leaves, structure = jax.tree.flatten(dynamic)
    read = [arrays[f"leaf {i}"] for i in range(len(leaves))]
    if any(a.shape != b.shape or a.dtype != b.dtype for a, b in zip(read, leaves, strict=True)):
        raise ValueError("arrays of other shapes")
    placed = jax.tree.unflatten(structure, [as_array(leaf) for leaf in read])
    policy, optimiser = eqx.combine(placed, static)
    history = tuple(StepRecord(*row) for row in arrays["history"].tolist())
    return Training(template.settings, policy, optimiser, history)


def _leaves(training: Training) -> list[jax.Array]:
    return jax.tree.leaves(eqx.filter((training.policy, training.optimiser), eqx.is_array))
