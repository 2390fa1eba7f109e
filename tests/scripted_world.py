"""A made-up world that answers every need of a dialogue, from a seed."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from balar_core.dialogue import (
    Answered,
    Ask,
    CellTable,
    Conclude,
    Concluded,
    Dialogue,
    Dimension,
    ElicitAnswers,
    ElicitedAnswers,
    ElicitedLikelihoods,
    ElicitedPriors,
    ElicitLikelihoods,
    ElicitPriors,
    Need,
    ProposedDimensions,
    ProposedExpansion,
    ProposeDimensions,
    ProposedQuestions,
    ProposeExpansion,
    ProposeQuestions,
    Question,
    Reply,
    ScoreAnswer,
    ScoredAnswer,
)

LABELS = ("likely", "neutral", "unlikely")


@dataclass
class ScriptedWorld:
    """Answers needs at random, reproducibly.

    Attributes:
        seed: everything random comes from it.
        sizes: the numbers of values of the first dimensions.
        questions: how many questions there are at first.
        new_questions: how many come with each expansion.
        expansion_size: the number of values of each new dimension.
        expansions: how many new dimensions there are to offer.
    """

    seed: int = 0
    sizes: tuple[int, ...] = (2, 3, 2)
    questions: int = 3
    new_questions: int = 2
    expansion_size: int = 2
    expansions: int = 0
    offered: int = 0
    made: int = 0
    random: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)

    def _row(self, length: int) -> tuple[str, ...]:
        return tuple(str(label) for label in self.random.choice(LABELS, length))

    def _table(self, values: int, choices: int) -> tuple[tuple[str, ...], ...] | None:
        if self.random.random() < 0.3:
            return None
        return tuple(self._row(choices) for _ in range(values))

    def _questions(self, count: int) -> tuple[Question, ...]:
        fresh = []
        for _ in range(count):
            self.made += 1
            width = int(self.random.integers(2, 5))
            fresh.append(Question(f"Question {self.made}?", tuple("abcd"[:width])))
        return tuple(fresh)

    def fulfil(self, need: Need) -> Reply:
        if isinstance(need, ProposeDimensions):
            return ProposedDimensions(
                tuple(
                    Dimension(f"d{j}", tuple(f"v{i}" for i in range(size)))
                    for j, size in enumerate(self.sizes)
                )
            )
        if isinstance(need, ElicitPriors):
            return ElicitedPriors(tuple(self._row(d.size) for d in need.dimensions))
        if isinstance(need, ProposeQuestions):
            first = not need.existing
            return ProposedQuestions(
                self._questions(self.questions if first else self.new_questions)
            )
        if isinstance(need, ElicitLikelihoods):
            sizes = {d.name: d.size for d in need.dimensions}
            widths = {
                p: len(q.choices) for p, q in zip(need.positions, need.questions, strict=True)
            }
            return ElicitedLikelihoods(
                tuple(
                    CellTable(
                        c.question,
                        c.user,
                        c.dimension,
                        self._table(sizes[c.dimension], widths[c.question]),
                    )
                    for c in need.cells
                )
            )
        if isinstance(need, ElicitAnswers):
            return ElicitedAnswers(
                tuple(self._table(d.size, len(need.answers)) for d in need.dimensions)
            )
        if isinstance(need, Ask):
            kind = self.random.integers(4)
            width = len(need.question.choices)
            if kind == 0:
                return Answered(unknown=True)
            if kind == 1:
                return Answered(evidence=self._row(width))
            if kind == 2:
                return Answered(reply="something in free text")
            return Answered(choice=int(self.random.integers(width)), reply="that one")
        if isinstance(need, ScoreAnswer):
            return ScoredAnswer(self._row(len(need.question.choices)))
        if isinstance(need, ProposeExpansion):
            if self.offered == self.expansions:
                return ProposedExpansion(None)
            self.offered += 1
            values = tuple(f"w{i}" for i in range(self.expansion_size))
            return ProposedExpansion(Dimension(f"extra {self.offered}", values))
        assert isinstance(need, Conclude)
        return Concluded(need.answers[0][0] if need.answers else None, "so it is")

    def play(
        self, dialogue: Dialogue, *, each: Callable[[Dialogue], None] = lambda d: None
    ) -> Dialogue:
        """Answer until the dialogue is finished; `each` sees every dialogue on the way."""
        while dialogue.need is not None:
            dialogue = dialogue.tell(self.fulfil(dialogue.need))
            each(dialogue)
        return dialogue
