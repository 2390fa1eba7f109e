"""Questions with a closed set of choices, and the users who can be asked."""

from dataclasses import dataclass

from .errors import InvalidQuestion
from .text import check_distinct, check_text

__all__ = ["Question", "User"]


@dataclass(frozen=True)
class Question:
    """A question and its discrete choices (BALAR, section 1).

    Attributes:
        text: the question as it is put to a user.
        choices: at least two different choices.
        note: a public word of explanation, shown on demand.

    Raises:
        InvalidQuestion: no text, fewer than two choices, empty or duplicate choices.

    >>> Question("Does light hurt?", ("yes", "no")).choices
    ('yes', 'no')
    """

    text: str
    choices: tuple[str, ...]
    note: str = ""

    def __post_init__(self) -> None:
        check_text(self.text, "the text of a question", error=InvalidQuestion)
        name = f"Question {self.text!r}"
        choices: object = self.choices
        if not isinstance(choices, tuple | list):
            raise InvalidQuestion(f"{name}: the choices are {choices!r}; give a tuple.")
        object.__setattr__(self, "choices", tuple(choices))
        if len(self.choices) < 2:
            raise InvalidQuestion(
                f"{name} has {len(self.choices)} choice(s); a question needs at least "
                "two, or its answer tells nothing."
            )
        for position, choice in enumerate(self.choices):
            check_text(
                choice, f"choice {position} of question {self.text!r}", error=InvalidQuestion
            )
        check_distinct(self.choices, f"{name}: choices", error=InvalidQuestion)
        check_text(
            self.note, f"the note of question {self.text!r}", empty=True, error=InvalidQuestion
        )


@dataclass(frozen=True)
class User:
    """Somebody who can be asked.

    Attributes:
        name: a name, different from every other user's.
        public: what everybody may know about the user. What only the user knows never enters the
            engine; it belongs to whatever plays the user.
    """

    name: str
    public: str = ""

    def __post_init__(self) -> None:
        check_text(self.name, "the name of a user", error=InvalidQuestion)
        check_text(self.public, f"the public text of user {self.name!r}", empty=True)
