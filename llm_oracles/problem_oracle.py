"""Answers every need of a dialogue from a written-down problem; questions go to a user."""

from balar_core.dialogue import (
    Ask,
    CellTable,
    Conclude,
    Concluded,
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
    Reply,
    ScoreAnswer,
)
from balar_core.errors import BalarError
from balar_core.questions import Question
from balar_core.space import Dimension

from .oracle import Oracle
from .problem_checks import suggestion
from .problem_schema import DimensionEntry, Problem, QuestionEntry, rows_of

__all__ = ["NotInProblem", "ProblemOracle"]


class NotInProblem(BalarError, LookupError):
    """The dialogue needs something that the problem does not hold."""


class ProblemOracle:
    """Proposes what a problem holds, fills tables from it, and passes questions on to a user.

    Args:
        problem: the problem.
        user: answers `Ask` and `ScoreAnswer`.
    """

    def __init__(self, problem: Problem, user: Oracle) -> None:
        self.problem = problem
        self.user = user
        self._dimensions = {entry.name: entry for entry in problem.all_dimensions}
        self._questions = {entry.text: entry for entry in problem.all_questions}

    async def fulfil(self, need: Need) -> Reply:
        """The reply to a need.

        Raises:
            NotInProblem: the need is about something that the problem does not hold.
        """
        match need:
            case Ask() | ScoreAnswer():
                return await self.user.fulfil(need)
            case ProposeDimensions():
                return ProposedDimensions(tuple(entry.core for entry in self.problem.dimensions))
            case ElicitPriors():
                entries = (self._dimension(dimension) for dimension in need.dimensions)
                return ElicitedPriors(tuple(entry.prior_row for entry in entries))
            case ProposeQuestions():
                return ProposedQuestions(self._new_questions(need))
            case ElicitLikelihoods():
                return self._likelihoods(need)
            case ElicitAnswers():
                return self._answers(need)
            case ProposeExpansion():
                return ProposedExpansion(self._expansion(need))
            case Conclude():
                return self._conclude(need)

    def _dimension(self, dimension: Dimension) -> DimensionEntry:
        entry = self._dimensions.get(dimension.name)
        if entry is None or entry.value_names != dimension.values:
            raise NotInProblem(
                f"Problem {self.problem.name!r} has no dimension {dimension.name!r} with the "
                f"values {', '.join(map(repr, dimension.values))}. "
                + suggestion(dimension.name, self._dimensions, "dimensions")
            )
        return entry

    def _question(self, question: Question) -> QuestionEntry:
        entry = self._questions.get(question.text)
        if entry is None or entry.choices != question.choices:
            raise NotInProblem(
                f"Problem {self.problem.name!r} has no question {question.text!r} with the "
                f"choices {', '.join(map(repr, question.choices))}. "
                + suggestion(question.text, self._questions, "questions")
            )
        return entry

    def _new_questions(self, need: ProposeQuestions) -> tuple[Question, ...]:
        known = {dimension.name for dimension in need.dimensions}
        entries = list(self.problem.questions)
        for expansion in self.problem.expansions:
            if expansion.name in known:
                entries += expansion.questions
        existing = {question.text for question in need.existing}
        new = [entry.core for entry in entries if entry.text not in existing]
        return tuple(new[: need.max_questions])

    def _likelihoods(self, need: ElicitLikelihoods) -> ElicitedLikelihoods:
        questions = dict(zip(need.positions, need.questions, strict=True))
        dimensions = {dimension.name: dimension for dimension in need.dimensions}
        entries = {position: self._question(q) for position, q in questions.items()}
        for dimension in need.dimensions:
            self._dimension(dimension)
        tables = []
        for cell in need.cells:
            given = entries[cell.question].tables_for(cell.user).get(cell.dimension)
            rows = rows_of(given, dimensions[cell.dimension])
            tables.append(CellTable(cell.question, cell.user, cell.dimension, rows))
        return ElicitedLikelihoods(tuple(tables))

    def _answers(self, need: ElicitAnswers) -> ElicitedAnswers:
        answers = self.problem.answers
        if answers is None or answers.names != need.answers:
            listed = ", ".join(map(repr, need.answers))
            raise NotInProblem(f"Problem {self.problem.name!r} does not have the answers {listed}.")
        for dimension in need.dimensions:
            self._dimension(dimension)
        return ElicitedAnswers(
            tuple(rows_of(answers.given.get(d.name), d) for d in need.dimensions)
        )

    def _expansion(self, need: ProposeExpansion) -> Dimension | None:
        known = {dimension.name for dimension in need.dimensions}
        left = (entry for entry in self.problem.expansions if entry.name not in known)
        return next((entry.core for entry in left), None)

    def _conclude(self, need: Conclude) -> Concluded:
        if need.answers:
            answer = max(need.answers, key=lambda pair: pair[1])[0]
            return Concluded(answer, self._conclusion(answer))
        return Concluded()

    def _conclusion(self, answer: str) -> str:
        entries = self.problem.answers.choices if self.problem.answers else ()
        texts = (e.conclusion or e.note for e in entries if e.answer == answer)
        return next(texts, "")
