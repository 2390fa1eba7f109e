"""Status codes of compiled code. Their texts are the help; the host raises them.

Inside `jax.jit` nothing is raised: a `Status` is an array that travels with the result (it can be
batched with `vmap`), and `help_text(code)` is its text.
"""

# The metaclass of `Enumeration` turns the texts into members.
# mypy: disable-error-code="assignment"

from typing import ClassVar, cast

import equinox as eqx
import jax

__all__ = ["Action", "Status", "code_name", "help_text"]


class Status(eqx.Enumeration):
    """How a computation went."""

    ok: ClassVar["Status"] = "fine"
    impossible_evidence: ClassVar["Status"] = (
        "The evidence has probability zero: every state that is still possible excludes it. The "
        "belief is unchanged. If people may answer wrongly, give the tables a noise floor."
    )
    not_a_number: ClassVar["Status"] = (
        "A score is not a number. Look for NaN in the prior, the tables or the evidence of the "
        "question that is named."
    )
    impossible_state: ClassVar["Status"] = (
        "In some state that has probability every choice of a question is impossible: its tables "
        "contradict each other there. Give the tables a noise floor or mend the zeros."
    )


class Action(eqx.Enumeration):
    """What to do next (BALAR, sections 6 and 7)."""

    ask: ClassVar["Action"] = (
        "Ask the best question: it is informative enough for the questions that are left."
    )
    expand: ClassVar["Action"] = (
        "Expand: the questions at hand cannot close the gap in the questions that are left."
    )
    answer_settled: ClassVar["Action"] = "Stop: one answer has probability 1 - alpha or more."
    dimensions_settled: ClassVar["Action"] = (
        "Stop: enough dimensions have a value with probability 1 - alpha or more."
    )
    question_budget: ClassVar["Action"] = "Stop: no question may be asked any more."
    round_budget: ClassVar["Action"] = "Stop: no round is left."
    nothing_informative: ClassVar["Action"] = (
        "Stop: no question that may still be asked tells enough, and there is no room to expand."
    )
    failed: ClassVar["Action"] = "Stop: a score is not a number."


def code_name(code: Status | Action) -> str:
    """The name of one (unbatched) code.

    >>> code_name(Action.ask)
    'ask'
    """
    return _NAMES[_class(code)][int(jax.tree.leaves(code)[0])]


def help_text(code: Status | Action) -> str:
    """The text of one (unbatched) code.

    >>> help_text(Status.ok)
    'fine'
    """
    cls = _class(code)
    return cast(str, cls[getattr(cls, code_name(code))])  # type: ignore[index]


def _class(code: Status | Action) -> type[Status] | type[Action]:
    return Status if isinstance(code, Status) else Action


def _names(cls: type[Status] | type[Action]) -> dict[int, str]:
    members = {name: getattr(cls, name) for name in cls.__annotations__}
    return {int(jax.tree.leaves(member)[0]): name for name, member in members.items()}


_NAMES: dict[type, dict[int, str]] = {Status: _names(Status), Action: _names(Action)}
