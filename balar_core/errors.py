"""The exceptions of balar, one small tree.

Everything that balar raises on purpose is a `BalarError`; its message names the offending thing
and the way out. Inside compiled code nothing is raised: a `Status` travels with the result and
`Status` texts are the same words that the host raises.

    BalarError
    ├── InvalidInput (also a ValueError)
    │   ├── InvalidText            a string that cannot be stored, printed or told apart
    │   ├── InvalidDimension       empty or duplicate dimensions, fewer than two values
    │   ├── InvalidQuestion        empty or duplicate choices, duplicate questions
    │   ├── InvalidLabel           a label that is not in the label map, or a bad label map
    │   ├── InvalidDistribution    NaN, negative, infinite or all-zero weights
    │   ├── InvalidTable           wrong shape, missing, duplicate or unknown cells
    │   ├── InvalidEvidence        evidence that does not fit its question
    │   ├── InvalidSetting         a setting out of range
    │   ├── InvalidGap             a gap that is not a number from 0 to 1
    │   ├── InvalidFrame           an intent frame that cannot be used
    │   └── InvalidTool            a tool without a name, a schema or a usable cost
    ├── StateSpaceTooLarge         more joint states than the cap allows
    ├── ImpossibleEvidence         every state with probability left excludes the answer
    ├── UnknownPair                no such (question, user) pair
    ├── AlreadyAsked               the pair was asked before
    ├── UnexpectedReply            the dialogue is not waiting for this
    ├── CorruptDialogue            a saved dialogue that cannot be read
    ├── CorruptProbing             a saved probe loop that cannot be read
    └── NumericFailure             a score that is not a number
"""


class BalarError(Exception):
    """Base class of every error that balar raises on purpose."""


class InvalidInput(BalarError, ValueError):
    """Something handed to balar is malformed."""


class InvalidText(InvalidInput):
    """A string that cannot be stored, printed or told apart from another."""


class InvalidDimension(InvalidInput):
    """A dimension without a name, with fewer than two values, or with duplicates."""


class InvalidQuestion(InvalidInput):
    """A question without text, with fewer than two choices, or with duplicates."""


class InvalidLabel(InvalidInput):
    """A label outside the label map, or a label map that cannot be used."""


class InvalidDistribution(InvalidInput):
    """Weights that are negative, infinite, not numbers, or all zero."""


class InvalidTable(InvalidInput):
    """A likelihood table of the wrong shape, or with missing, duplicate or alien cells."""


class InvalidEvidence(InvalidInput):
    """Evidence that does not fit the choices of its question."""


class InvalidSetting(InvalidInput):
    """A setting outside its range."""


class InvalidGap(InvalidInput):
    """A gap between what was asked and what is needed that is not a number from 0 to 1."""


class InvalidFrame(InvalidInput):
    """An intent frame with a part that is missing, malformed or out of range."""


class InvalidTool(InvalidInput):
    """A tool, or a call of one, that is malformed; two tools of one name."""


class StateSpaceTooLarge(BalarError):
    """The product of the dimensions has more states than the cap allows."""


class ImpossibleEvidence(BalarError):
    """The answer has probability zero in every state that is still possible."""


class UnknownPair(BalarError, LookupError):
    """There is no such (question, user) pair."""


class AlreadyAsked(BalarError):
    """The (question, user) pair has been asked before."""


class UnexpectedReply(BalarError):
    """The dialogue is not waiting for a reply of this kind."""


class CorruptDialogue(BalarError):
    """A saved dialogue cannot be read back."""


class CorruptProbing(BalarError):
    """A saved probe loop cannot be read back."""


class NumericFailure(BalarError):
    """A computation produced something that is not a number."""
