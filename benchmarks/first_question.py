"""From a fresh process to the first question of a dialogue; prints the seconds as JSON.

    python -m benchmarks.first_question

Five dimensions of four values, three questions with four choices, five users: the paper's default
size. `JAX_COMPILATION_CACHE_DIR` chooses the cache of compiled programs.
"""

import json
import time

_START = time.perf_counter()

from balar_core import Dimension, Question, User  # noqa: E402
from balar_core.dialogue import (  # noqa: E402
    Ask,
    CellTable,
    Dialogue,
    ElicitedLikelihoods,
    ElicitedPriors,
    ElicitLikelihoods,
    ProposedDimensions,
    ProposedQuestions,
    Settings,
    Setup,
)

_IMPORTED = time.perf_counter()

LABELS = ("likely", "neutral", "unlikely")


def first_question() -> Ask:
    """Tell a dialogue everything it needs to ask."""
    names = tuple("abcd")
    users = tuple(User(f"user {i}") for i in range(5))
    no_room_to_expand = Settings(max_states=4**5)
    dialogue = Dialogue.start(Setup(prompt="What is it?", users=users, settings=no_room_to_expand))
    dialogue = dialogue.tell(
        ProposedDimensions(tuple(Dimension(f"dimension {j}", names) for j in range(5)))
    )
    dialogue = dialogue.tell(ElicitedPriors((LABELS + LABELS[:1],) * 5))
    dialogue = dialogue.tell(
        ProposedQuestions(tuple(Question(f"Question {q}?", names) for q in range(3)))
    )
    need = dialogue.need
    assert isinstance(need, ElicitLikelihoods)
    tables = []
    for i, cell in enumerate(need.cells):
        rows = tuple(tuple(LABELS[(i + v * y) % 3] for y in range(4)) for v in range(4))
        tables.append(CellTable(cell.question, cell.user, cell.dimension, rows))
    ask = dialogue.tell(ElicitedLikelihoods(tuple(tables))).need
    assert isinstance(ask, Ask)
    return ask


def main() -> None:
    """Print `{"import_s": ..., "question_s": ...}`."""
    start = time.perf_counter()
    first_question()
    asked = time.perf_counter()
    print(json.dumps({"import_s": _IMPORTED - _START, "question_s": asked - start}))


if __name__ == "__main__":
    main()
