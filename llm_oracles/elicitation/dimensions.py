"""Dimensions: the first ones, and one more at EXPAND (BALAR, sections 8 and 9)."""

from pydantic import BaseModel, Field

from balar_core.dialogue import (
    ProposedDimensions,
    ProposedExpansion,
    ProposeDimensions,
    ProposeExpansion,
)
from balar_core.errors import InvalidDimension
from balar_core.space import Dimension
from balar_core.text import canonical, check_distinct

from . import material
from .asker import Asker, Task
from .prompts import instruction
from .schemas import Words, schema_of

__all__ = ["propose_dimensions", "propose_expansion"]


class DimensionReply(BaseModel):
    """One dimension, as a model gives it."""

    reason: str = Field("", max_length=300)
    name: Words
    values: list[Words] = Field(min_length=2)

    def dimension(self, most: int) -> Dimension:
        """The dimension.

        Raises:
            InvalidDimension: it has too many values, or it cannot be a dimension.
        """
        if len(self.values) > most:
            raise InvalidDimension(
                f"{self.name!r} has {len(self.values)} values; at most {most} are wanted."
            )
        return Dimension(self.name.strip(), tuple(value.strip() for value in self.values))


class DimensionsReply(BaseModel):
    """The first dimensions."""

    dimensions: list[DimensionReply] = Field(min_length=1)


class ExpansionReply(BaseModel):
    """One more dimension, or none."""

    dimension: DimensionReply | None


async def propose_dimensions(asker: Asker, need: ProposeDimensions) -> ProposedDimensions:
    """Ask for the first dimensions.

    Raises:
        UnusableReply: no reply holds dimensions that can be used.
        ModelError: the model gave no reply.
    """
    limits = {"max_dimensions": need.max_dimensions, "max_values": need.max_values}
    task = Task(
        "dimensions",
        instruction(asker.preset, "dimensions", **limits),
        {
            "request": need.prompt,
            "context": need.context,
            "people": material.people(need.users),
            "possible_answers": list(need.answers or ()),
        },
        schema_of(
            DimensionsReply,
            most={"dimensions": need.max_dimensions, "values": need.max_values},
        ),
    )

    def read(data: object) -> ProposedDimensions:
        given = DimensionsReply.model_validate(data).dimensions
        if len(given) > need.max_dimensions:
            raise InvalidDimension(
                f"There are {len(given)} dimensions; at most {need.max_dimensions} are wanted."
            )
        dimensions = tuple(entry.dimension(need.max_values) for entry in given)
        check_distinct((d.name for d in dimensions), "Dimensions", error=InvalidDimension)
        return ProposedDimensions(dimensions)

    return await asker.ask(task, read)


async def propose_expansion(asker: Asker, need: ProposeExpansion) -> ProposedExpansion:
    """Ask for one more dimension.

    Raises:
        UnusableReply: no reply holds a dimension that can be used.
        ModelError: the model gave no reply.
    """
    task = Task(
        "expansion",
        instruction(asker.preset, "expansion", max_values=need.max_values),
        {
            "request": need.prompt,
            "context": need.context,
            "people": material.people(need.users),
            "unknowns": material.unknowns(need.dimensions),
            "uncertain": list(need.uncertain),
            "conversation": material.conversation(need.conversation),
        },
        schema_of(ExpansionReply, most={"values": need.max_values}),
    )
    known = {canonical(dimension.name) for dimension in need.dimensions}

    def read(data: object) -> ProposedExpansion:
        given = ExpansionReply.model_validate(data).dimension
        if given is None:
            return ProposedExpansion(None)
        if canonical(given.name) in known:
            raise InvalidDimension(f"{given.name!r} is among the unknowns already.")
        return ProposedExpansion(given.dimension(need.max_values))

    return await asker.ask(task, read)
