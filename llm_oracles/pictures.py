"""Pictures as files: whole or not at all, and the same bytes for the same numbers."""

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from .store import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["save_picture"]

DATES = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
"""What would make two pictures of the same numbers differ."""


def save_picture(
    figure: "Figure", path: Path, *, dpi: float | None = None, outlines: bool = False
) -> None:
    """Save a figure of matplotlib; the ending of the file says in which format.

    Args:
        figure: the figure.
        path: the file.
        dpi: dots per inch; those of the figure by default.
        outlines: draw the letters of an SVG; else its texts can be read and searched.

    Raises:
        FileTrouble: the file cannot be written; nothing is left behind.
    """
    from matplotlib import rc_context

    kind, picture = path.suffix[1:].lower(), BytesIO()
    fonts = "path" if outlines else "none"
    with rc_context({"svg.hashsalt": "balar", "svg.fonttype": fonts}):
        figure.savefig(picture, format=kind, dpi=dpi or "figure", metadata=DATES.get(kind))
    write_whole(path, picture.getvalue())
