"""When to try again: back-off with jitter, and what servers ask for themselves."""

import math
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime

from balar_core.errors import InvalidSetting

from .errors import Temporary

__all__ = ["RetryPolicy", "retry_after"]


@dataclass(frozen=True)
class RetryPolicy:
    """How often, and after which time, a request that failed is sent again.

    Without advice from the server the n-th wait is `first_wait` times 2 to the n - 1, at most
    `longest_wait`, of which a random part between a half and all is waited.

    Attributes:
        attempts: how many times a request is sent at most.
        first_wait: seconds.
        longest_wait: seconds.
        patience: the longest wait that a server may ask for (seconds). Beyond it the error is
            raised at once, with its `retry_after`.
        jitter: gives numbers in [0, 1).

    Raises:
        InvalidSetting: a number is out of range.
    """

    attempts: int = 4
    first_wait: float = 0.5
    longest_wait: float = 8.0
    patience: float = 120.0
    jitter: Callable[[], float] = random.random

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise InvalidSetting(f"attempts is {self.attempts}; at least 1 is needed.")
        for name in ("first_wait", "longest_wait", "patience"):
            seconds = getattr(self, name)
            if not 0 <= seconds < math.inf:
                raise InvalidSetting(f"{name} is {seconds}; it is 0 or more, and finite.")

    def wait(self, error: Temporary, attempt: int) -> float | None:
        """The seconds to wait after a failure, or None to give up.

        Args:
            error: the failure.
            attempt: how many times the request has been sent.
        """
        if attempt >= self.attempts or error.final:
            return None
        if error.retry_after is not None:
            return error.retry_after if error.retry_after <= self.patience else None
        doubled = math.ldexp(self.first_wait, min(attempt - 1, 60))
        return min(self.longest_wait, doubled) * (1 + self.jitter()) / 2


def retry_after(headers: Mapping[str, str], date: float) -> float | None:
    """The seconds after which a server wants to be asked again; None if it does not say.

    `retry-after-ms` counts milliseconds; `retry-after` is a whole number of seconds or a date
    (RFC 9110). What is neither, or not in the future, says nothing.

    Args:
        headers: of the reply, names in lower case.
        date: now, in seconds since 1970.

    >>> retry_after({"retry-after": "90"}, 0.0)
    90.0
    >>> retry_after({"retry-after": "Thu, 01 Jan 1970 00:00:09 GMT"}, 2.0)
    7.0
    >>> retry_after({"retry-after": "soon"}, 0.0)
    """
    milliseconds = headers.get("retry-after-ms", "").strip()
    if re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,6})?", milliseconds):
        seconds = float(milliseconds) * 1e-3
    else:
        value = headers.get("retry-after", "").strip()
        seconds = float(value) if re.fullmatch(r"[0-9]{1,12}", value) else _until(value, date)
    return seconds if seconds > 0 else None


def _until(text: str, date: float) -> float:
    try:
        moment = parsedate_to_datetime(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return moment.timestamp() - date
    except (ValueError, OverflowError):
        return 0.0
