"""A case of a benchmark: what an asker sees, what each user knows, and what is true."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from balar_core.dialogue import Settings, Setup
from balar_core.questions import User

__all__ = ["Case"]


@dataclass(frozen=True)
class Case:
    """One case of a benchmark.

    An asker sees `prompt`, `context`, `users` and `answers`. What is in `private` goes to whoever
    plays the users, and `truth` to the score; neither may reach an asker.

    Attributes:
        id: what it is called in files and reports; no other case of its benchmark has it.
        prompt: the request (BALAR, section 1: p).
        context: what everybody knows (c).
        users: who can be asked, with their public information.
        private: user -> what only that user knows; for every user.
        answers: the closed answer set; None if the answer is free text.
        truth: the right answer: one of `answers`, or a text.
        remark: what is odd about the record; empty if nothing is.
    """

    id: str
    prompt: str
    context: str
    users: tuple[User, ...]
    private: Mapping[str, str] = field(repr=False)
    answers: tuple[str, ...] | None
    truth: str = field(repr=False)
    remark: str = ""

    def setup(self, settings: Settings | None = None, origin: str = "") -> Setup:
        """What a dialogue about the case starts from.

        Raises:
            InvalidInput: the case cannot be asked about, such as two users of the same name.
        """
        return Setup(
            self.prompt,
            self.context,
            self.users,
            self.answers,
            settings=settings or Settings(),
            origin=origin,
        )
