"""Tables of labels: filled by a model cell by cell, and never guessed.

A cell that the reply leaves out, or gives with a label that does not exist, is asked for again,
alone; a reply that gives a cell twice is no sound JSON and is not used at all; what a reply adds
beyond the cells of the sheet is never used. So a table comes out whole and as the model meant it,
or not at all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel, ValidationError

from balar_core.labels import Table
from balar_core.text import canonical

from ..models import Malformed
from .asker import Asker, Task, UnusableReply, complaint_about, trouble_with
from .prompts import instruction

__all__ = ["Sheet", "UnfilledCell", "fill", "table_of"]

MOST_REASON = 300
"""Characters of the model's reason, so that it cannot go on for ever."""


class UnfilledCell(UnusableReply):
    """A cell of a table could not be filled; the message names it."""


class SheetReply(BaseModel):
    """What a model fills a sheet with; single labels are checked one by one."""

    reason: str = ""
    labels: dict[str, Any]


@dataclass(frozen=True)
class Sheet:
    """A table of labels that a model fills in one call.

    Attributes:
        purpose: what kind of table it is; the name of its instruction.
        data: what the model is shown.
        cells: id of each cell, row by row -> the cell in words, for messages.
        width: cells in a row.
        labels: the labels to choose from.
    """

    purpose: str
    data: Mapping[str, Any]
    cells: Mapping[str, str]
    width: int
    labels: tuple[str, ...]

    def parts(self, size: int) -> "tuple[Sheet, ...]":
        """The sheet cut into sheets of at most `size` cells."""
        ids = list(self.cells)
        cuts = (ids[i : i + size] for i in range(0, len(ids), size))
        return tuple(self.only(cut) for cut in cuts)

    def only(self, cells: Sequence[str]) -> "Sheet":
        """The sheet with some of its cells."""
        return replace(self, cells={cell: self.cells[cell] for cell in cells})

    def task(self, asker: Asker) -> Task:
        """What the model is asked to do."""
        told = instruction(asker.preset, self.purpose, labels=", ".join(self.labels))
        data = {**self.data, "cells": list(self.cells)}
        return Task(self.purpose, told, data, self.schema())

    def schema(self) -> dict[str, Any]:
        """The JSON schema of a complete reply: every cell by its id, each with a known label."""
        label = {"type": "string", "enum": list(self.labels)}
        return _closed(
            reason={"type": "string", "maxLength": MOST_REASON},
            labels=_closed(**{cell: label for cell in self.cells}),
        )

    def read(self, data: object) -> dict[str, str]:
        """The cells that a reply fills with a known label.

        Raises:
            ValidationError: the reply is no filled sheet at all.
        """
        given = SheetReply.model_validate(data).labels
        known = {canonical(label): label for label in self.labels}
        known |= {label: label for label in self.labels}
        found = {}
        for cell in self.cells:
            said = given.get(cell)
            label = known.get(said, known.get(canonical(said))) if isinstance(said, str) else None
            if label is not None:
                found[cell] = label
        return found


async def fill(asker: Asker, sheet: Sheet) -> dict[str, str]:
    """Every cell of a sheet with its label.

    Raises:
        UnfilledCell: a cell is still without a label after all repairs.
        ModelError: the model gave no reply.
    """
    filled: dict[str, str] = {}
    complaint = trouble = ""
    for _ in range(1 + asker.repairs):
        rest = sheet.only([cell for cell in sheet.cells if cell not in filled])
        try:
            filled |= rest.read((await asker.complete(rest.task(asker), complaint)).data)
        except (Malformed, ValidationError) as error:
            complaint, trouble = complaint_about(error), trouble_with(error)
            continue
        missing = [cell for cell in sheet.cells if cell not in filled]
        if not missing:
            return filled
        complaint = trouble = (
            f"there is no label from the list for {', '.join(missing)}. Give these, and nothing "
            "else."
        )
    missing = [words for cell, words in sheet.cells.items() if cell not in filled]
    more = f" (and {len(missing) - 1} cells more)" if len(missing) > 1 else ""
    raise UnfilledCell(
        f"The model gave no usable label for {missing[0]}{more}, although it was asked "
        f"{1 + asker.repairs} times. The last trouble: {trouble} Use a more capable model, "
        "or allow more repairs."
    )


def table_of(sheet: Sheet, filled: Mapping[str, str]) -> Table:
    """The filled sheet as a table, row by row."""
    row = [filled[cell] for cell in sheet.cells]
    return tuple(tuple(row[i : i + sheet.width]) for i in range(0, len(row), sheet.width))


def _closed(**properties: Any) -> dict[str, Any]:
    """The schema of an object with exactly these properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
