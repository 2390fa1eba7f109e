"""Reading the public files of AURA: its queries and its results.

Nothing is taken for granted about them: whatever is missing or shaped otherwise than expected is an
error that names the file.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from balar_core.codec import loads
from balar_core.errors import InvalidInput

from ..facts import Fact
from .coverage import shown_facts

__all__ = ["Cell", "Release", "ReleaseError", "Row", "read_json", "shown"]

Row = Mapping[str, Any]
Cell = tuple[str, int]
"""A seed and a query."""


class ReleaseError(InvalidInput):
    """A released file is missing or is not what its name promises."""


@dataclass(frozen=True)
class Release:
    """A folder with released files, in subfolders or not.

    Attributes:
        root: the folder.
        paths: the JSON files under it by their names.
    """

    root: Path
    paths: Mapping[str, Path] = field(default_factory=dict)

    @classmethod
    def open(cls, root: Path) -> "Release":
        """Look which files there are.

        Raises:
            ReleaseError: there is no such folder, or no JSON file in it.
        """
        paths = {path.name: path for path in sorted(root.rglob("*.json"))} if root.is_dir() else {}
        if not paths:
            raise ReleaseError(
                f"{root} holds no JSON files. Give the folder with the released results of AURA."
            )
        return cls(root, paths)

    def read(self, name: str) -> Any:
        """The contents of one file.

        Raises:
            ReleaseError: the file is missing, cannot be read, or is no JSON.
        """
        if name not in self.paths:
            raise ReleaseError(f"{name} is not under {self.root}.")
        return read_json(self.paths[name])

    def rows(self, name: str, condition: str | None = None) -> dict[Cell, Row]:
        """The rows of one condition (or of a file that has only one), by seed and query.

        Raises:
            ReleaseError: the file is missing or has no such rows.
        """
        try:
            return {
                (seed, row["query_id"]): row
                for seed, found in self.read(name)["per_seed"].items()
                for row in _details(found if condition is None else found[condition])
            }
        except (KeyError, TypeError, AttributeError) as error:
            wanted = "rows by seed" if condition is None else f"rows of {condition!r} by seed"
            raise ReleaseError(f"{name} has no {wanted}: {error!r}.") from None


def read_json(path: Path) -> Any:
    """The contents of one file, strictly: NaN and infinities are no JSON.

    Raises:
        ReleaseError: the file cannot be read, or is no JSON.
    """
    try:
        return loads(path.read_bytes())
    except (OSError, InvalidInput) as error:
        raise ReleaseError(f"{path} cannot be read as JSON: {error}") from None


def _details(found: Any) -> Sequence[Row]:
    rows: Sequence[Row] = found["details"] if isinstance(found, dict) else found
    return rows


def shown(row: Row) -> frozenset[Fact]:
    """The facts that the probes of a released row brought to light."""
    return frozenset(
        fact
        for probe in row["probe_observations"]
        for fact in shown_facts(probe["tool"], probe["args"], _payload(probe["result"]))
    )


def _payload(result: Any) -> Any:
    if not isinstance(result, str):
        return result
    try:
        return json.loads(result)
    except ValueError:
        return None
