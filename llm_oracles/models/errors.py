"""What can go wrong between balar and a language model, told apart before anything is parsed.

ModelError                 carries the usage of the attempts that failed
├── TransportFailure       no usable reply: connection, server trouble, not a completion
├── RateLimited            the server wants fewer calls; carries retry_after
├── RequestRejected        the server refuses the request itself; carries the status
│   ├── NotAuthorised      no key, a wrong key, or one without the right
│   └── SchemaUnsupported  the server cannot follow a schema in any way that was allowed
├── ReplyError             the model did reply, but not as asked; carries an excerpt
│   ├── Truncated          cut off at the token limit; not retried
│   ├── Refused            the model or a filter declined; not retried
│   └── Malformed          not the JSON that was asked for
├── BudgetExceeded         the next call would go beyond calls, tokens, cost or time
├── DeadlineExceeded       there was not enough time for the call
├── ScoringUnsupported     the server does not tell likelihoods of given texts
├── InvalidEndpoint        an address that cannot or must not be used
├── InvalidKey             a key that is missing or cannot be one
├── ReplayMiss             a recording does not hold this request
└── StorageTrouble         a recording or a cache cannot be read or written
"""

from balar_core.errors import BalarError

from .values import Usage

__all__ = [
    "BudgetExceeded",
    "DeadlineExceeded",
    "InvalidEndpoint",
    "InvalidKey",
    "Malformed",
    "ModelError",
    "NotAuthorised",
    "RateLimited",
    "Refused",
    "ReplayMiss",
    "ReplyError",
    "RequestRejected",
    "SchemaUnsupported",
    "ScoringUnsupported",
    "StorageTrouble",
    "Temporary",
    "TransportFailure",
    "Truncated",
]


class ModelError(BalarError):
    """Base class of what goes wrong with language models.

    Attributes:
        message: what went wrong, and the way out.
        usage: what the call has cost all the same.
        request_id: what the server calls the failed request, for its operators; None if unknown.
    """

    def __init__(self, message: str, *, request_id: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.usage = Usage()
        self.request_id = request_id

    def __str__(self) -> str:
        attempts = self.usage.attempts
        return self.message + (f" (After {attempts} attempts.)" if attempts > 1 else "")


class Temporary(ModelError):
    """Something that may pass. It was retried as often as the retry policy allows.

    Attributes:
        retry_after: seconds that the server asked to wait; None if it did not say.
        final: whether the server said that retrying is of no use.
    """

    def __init__(
        self,
        message: str,
        *,
        retry_after: float | None = None,
        final: bool = False,
        request_id: str | None = None,
    ) -> None:
        super().__init__(message, request_id=request_id)
        self.retry_after = retry_after
        self.final = final


class TransportFailure(Temporary):
    """No usable reply arrived."""


class RateLimited(Temporary):
    """The server wants fewer calls."""


class RequestRejected(ModelError):
    """The server refuses the request itself; sending it again would not help.

    Attributes:
        status: the HTTP status.
    """

    def __init__(self, message: str, *, status: int, request_id: str | None = None) -> None:
        super().__init__(message, request_id=request_id)
        self.status = status


class NotAuthorised(RequestRejected):
    """The server wants a key, or another one."""


class SchemaUnsupported(RequestRejected):
    """The server cannot follow a schema in any of the ways that were allowed."""


class ReplyError(ModelError):
    """The model replied, but not as asked.

    Attributes:
        excerpt: the beginning of the reply.
    """

    def __init__(self, message: str, *, excerpt: str = "", request_id: str | None = None) -> None:
        super().__init__(message, request_id=request_id)
        self.excerpt = excerpt


class Truncated(ReplyError):
    """The reply was cut off at the token limit; asking again costs the same and ends the same."""


class Refused(ReplyError):
    """The model, or a content filter, declined to reply."""


class Malformed(ReplyError):
    """The reply is not the JSON that was asked for.

    Attributes:
        fault: what is wrong with it, in a few words that hold none of it but perhaps a key; fit to
            be shown to the model.
    """

    def __init__(
        self,
        message: str,
        *,
        fault: str = "it is not the JSON that was asked for",
        excerpt: str = "",
        request_id: str | None = None,
    ) -> None:
        super().__init__(message, excerpt=excerpt, request_id=request_id)
        self.fault = fault


class BudgetExceeded(ModelError):
    """The next call would go beyond the budget; nothing was sent.

    Attributes:
        what: which limit: `"calls"`, `"tokens"`, `"cost"` or `"seconds"`.
        limit: the limit.
        spent: what has been spent of it.
    """

    def __init__(self, message: str, *, what: str, limit: float, spent: float) -> None:
        super().__init__(message)
        self.what = what
        self.limit = limit
        self.spent = spent


class DeadlineExceeded(ModelError):
    """The call, its retries included, did not end in time."""


class ScoringUnsupported(ModelError):
    """The server does not tell how likely a given text is."""


class InvalidEndpoint(ModelError):
    """An address that cannot be used, or to which a key must not be sent."""


class InvalidKey(ModelError):
    """A key that is missing, or that cannot be one."""


class ReplayMiss(ModelError):
    """A recording does not hold this request."""


class StorageTrouble(ModelError):
    """A recording or a cache cannot be read or written."""
