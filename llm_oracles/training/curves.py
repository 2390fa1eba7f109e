"""Learning curves of a run as a picture. Needs matplotlib (`pip install balar[train]`)."""

from pathlib import Path

import numpy as np

from balar_core.errors import BalarError, InvalidSetting

from ..pictures import save_picture
from .loop import Training

__all__ = ["MissingLibrary", "check_plot", "plot_curves"]

FORMATS = (".png", ".svg", ".pdf")
PANELS = (
    ("reward", "reward (nats)"),
    ("questions", "questions"),
    ("entropy", "entropy of decisions (nats)"),
    ("clipped", "clipped decisions (share)"),
)


class MissingLibrary(BalarError, ImportError):
    """A library of an extra is not installed."""


def check_plot(path: Path) -> None:
    """Refuse before a long run what could not be drawn after it.

    Raises:
        InvalidSetting: a file of another kind than PNG, SVG or PDF.
        MissingLibrary: matplotlib is not installed.
    """
    if path.suffix.lower() not in FORMATS:
        raise InvalidSetting(f"{path}: a plot is a file that ends in {', '.join(FORMATS)}.")
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise MissingLibrary(
            "Plots need matplotlib, which is not installed: pip install 'balar[train]'."
        ) from None


def plot_curves(training: Training, path: Path) -> None:
    """Draw reward, questions, entropy and clipping over the steps.

    Raises:
        InvalidSetting: a file of another kind than PNG, SVG or PDF.
        MissingLibrary: matplotlib is not installed.
        FileTrouble: the file cannot be written.
    """
    check_plot(path)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    steps = np.arange(1, training.step + 1)
    for axes, (name, label) in zip(figure.subplots(2, 2).flat, PANELS, strict=True):
        values = np.array([getattr(record, name) for record in training.history])
        axes.plot(steps, values, linewidth=0.6, alpha=0.5)
        axes.plot(steps, _smooth(values), linewidth=1.5)
        axes.set(xlabel="step", ylabel=label)
        axes.grid(alpha=0.3)
    save_picture(figure, path, outlines=True)


def _smooth(values: np.ndarray, width: int = 15) -> np.ndarray:
    """A running mean over the last values."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    ends = np.arange(1, len(values) + 1)
    begins = np.maximum(ends - width, 0)
    return np.asarray((sums[ends] - sums[begins]) / (ends - begins))
