"""A server: its address and key, the limits it bears, and how to go on when it stumbles."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from balar_core.errors import InvalidSetting

from .clock import Clock, SystemClock
from .errors import DeadlineExceeded, ModelError, RateLimited, Temporary, TransportFailure
from .http import HttpClient, HttpReply, check_address
from .limits import Limiter, Limits
from .protocol import Tokens, failure, parse_body, read_tokens
from .retry import RetryPolicy, retry_after
from .secrets import Secret
from .values import Usage, canonical_json

__all__ = ["Call", "Price", "Server"]

T = TypeVar("T")

BYTES_PER_TOKEN = 4
"""A rough guess, for the limit on tokens per minute until the server tells the number."""


@dataclass(frozen=True)
class Price:
    """What a million tokens cost, in any currency.

    Attributes:
        prompt: for tokens that are read.
        completion: for tokens that are written.

    Raises:
        InvalidSetting: a price is negative or not a finite number.
    """

    prompt: float
    completion: float

    def __post_init__(self) -> None:
        for name in ("prompt", "completion"):
            price = getattr(self, name)
            if not 0 <= price < math.inf:
                raise InvalidSetting(f"The {name} price is {price}; it is 0 or more, and finite.")

    def of(self, prompt_tokens: int, completion_tokens: int) -> float:
        """The price of so many tokens.

        >>> Price(prompt=2.0, completion=8.0).of(500_000, 250_000)
        3.0
        """
        return (self.prompt * prompt_tokens + self.completion * completion_tokens) * 1e-6


class Server:
    """Sends requests to one server, with patience and within limits.

    Args:
        base_url: its address, usually with `/v1` at the end.
        key: its key, if it wants one. A text is taken as the key itself.
        price: what its tokens cost; without it, costs are not known.
        limits: how many requests at once and in a minute.
        retry: when a request that failed is sent again.
        timeout: the longest that one attempt may take (seconds).
        deadline: the longest that one call may take, waiting and all attempts included
            (seconds); None for no limit.
        proxy: the URL of a proxy; None takes the usual environment variables.
        ca_file: certificates to trust instead of the usual ones.
        allow_plain_http: whether the key may be sent unencrypted to other computers.
        clock: the time.

    Attributes:
        base_url: its address.
        refused_formats: the ways to ask for JSON that it was found not to support.

    Raises:
        InvalidEndpoint: the address cannot be used.
        InvalidKey: the key cannot be one.
        InvalidSetting: a time is not positive.
    """

    def __init__(
        self,
        base_url: str,
        *,
        key: Secret | str | None = None,
        price: Price | None = None,
        limits: Limits | None = None,
        retry: RetryPolicy | None = None,
        timeout: float = 120.0,
        deadline: float | None = None,
        proxy: str | None = None,
        ca_file: Path | None = None,
        allow_plain_http: bool = False,
        clock: Clock | None = None,
    ) -> None:
        for name, seconds in (("timeout", timeout), ("deadline", deadline)):
            if seconds is not None and not seconds > 0:
                raise InvalidSetting(f"{name} is {seconds}; it is a positive number of seconds.")
        self.base_url = check_address(
            base_url, with_key=key is not None, allow_plain_http=allow_plain_http
        )
        self.refused_formats: set[str] = set()
        self._key = Secret(key) if isinstance(key, str) else key
        self._price = price
        self._retry = retry or RetryPolicy()
        self._timeout = timeout
        self._deadline = deadline
        self._clock = clock or SystemClock()
        self._limiter = Limiter(limits or Limits(), self._clock)
        self._http = HttpClient(proxy=proxy, ca_file=ca_file)

    def __repr__(self) -> str:
        return f"Server({self.base_url!r})"

    async def __aenter__(self) -> "Server":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections now instead of with the event loop."""
        await self._http.aclose()

    @asynccontextmanager
    async def call(self) -> AsyncIterator["Call"]:
        """Requests that belong to one call: they share its deadline, and their usage is summed.

        Raises:
            DeadlineExceeded: the block did not end in time.
            ModelError: whatever the block raises; it is given the usage so far.
        """
        call = Call(self)
        try:
            async with asyncio.timeout(self._deadline):
                yield call
        except TimeoutError:
            error = self._too_late("")
            error.usage = call.usage
            raise error from None
        except ModelError as error:
            error.usage = call.usage
            raise

    def url(self, path: str) -> str:
        """The address of a path; one that begins with `/` stands beside `/v1`, not within."""
        if path.startswith("/"):
            return self.base_url.removesuffix("/v1") + path
        return f"{self.base_url}/{path}"

    def _too_late(self, last: str) -> DeadlineExceeded:
        return DeadlineExceeded(
            f"{self.base_url} did not reply within {self._deadline:g} s. {last}".rstrip()
        )


class Call:
    """The requests of one call.

    Attributes:
        usage: what they have cost so far.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._begun = server._clock.now()
        self.usage = Usage(calls=1, cost=None if server._price is None else 0.0)

    async def post(
        self,
        path: str,
        fields: Mapping[str, Any],
        read: Callable[[Any], T],
        *,
        metered: bool = True,
    ) -> T:
        """Send a request, again if need be, and return what `read` makes of the reply.

        Args:
            path: where to, below the base URL.
            fields: what to send.
            read: makes a value of the reply's JSON, or raises; a `Temporary` error is retried.
            metered: whether the server should tell what the reply has cost.

        Raises:
            ModelError: it did not succeed; the subclass says why.
        """
        url = self._server.url(path)
        body = canonical_json(fields).encode()
        tokens = len(body) // BYTES_PER_TOKEN + int(fields.get("max_tokens") or 0)
        attempt = 1
        while True:
            try:
                return await self._exchange(url, body, tokens if metered else None, read)
            except Temporary as error:
                await self._before_retry(error, attempt)
            attempt += 1

    async def _exchange(
        self, url: str, body: bytes, tokens: int | None, read: Callable[[Any], T]
    ) -> T:
        reply, data = await self._attempt(url, body, tokens)
        headers = reply.headers
        try:
            problem = failure(
                reply.status,
                data,
                reply.body,
                url=url,
                retry_after=retry_after(headers, self._server._clock.date()),
                final=headers.get("x-should-retry") == "false",
            )
            if problem is not None:
                raise problem
            return read(data)
        except ModelError as error:
            error.request_id = headers.get("x-request-id")
            raise

    async def _attempt(self, url: str, body: bytes, tokens: int | None) -> tuple[HttpReply, Any]:
        server = self._server
        async with server._limiter.slot(tokens or 0) as estimate:
            self.usage += Usage(attempts=1)
            try:
                async with asyncio.timeout(server._timeout):
                    reply = await server._http.post(url, body, server._key)
            except TimeoutError:
                raise TransportFailure(
                    f"{url} did not reply within {server._timeout:g} s. Allow more time, or ask "
                    "for less at once."
                ) from None
            data = parse_body(reply.body)
            told = read_tokens(data)
            if told is not None:
                estimate.amount = told.prompt + told.completion
                self.usage += self._metered(told)
            elif tokens is not None and reply.status < 300:
                self.usage += Usage(unmetered=1, cost=None)
        return reply, data

    def _metered(self, told: Tokens) -> Usage:
        price = self._server._price
        cost = None if price is None else price.of(told.prompt, told.completion)
        return Usage(told.prompt, told.completion, cost=cost)

    async def _before_retry(self, error: Temporary, attempt: int) -> None:
        """Wait as long as it takes before the next attempt, or raise the error."""
        server = self._server
        wait = server._retry.wait(error, attempt)
        if wait is None:
            raise error
        spent = server._clock.now() - self._begun
        if server._deadline is not None and spent + wait >= server._deadline:
            raise server._too_late(f"The last attempt failed: {error}") from None
        if isinstance(error, RateLimited) and error.retry_after is not None:
            server._limiter.hold(wait)
        await server._clock.sleep(wait)
