"""The only module that knows the HTTP library.

A successor of httpx takes its place in the import below. No signature here shows its types.
"""

import logging
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from weakref import WeakSet

import httpx

from .errors import InvalidEndpoint, Malformed, TransportFailure
from .per_loop import PerLoop
from .secrets import Secret

__all__ = ["HttpClient", "HttpReply", "check_address", "is_local"]

CONNECT_SECONDS = 10.0
UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"
LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True)
class HttpReply:
    """What a server sent.

    Attributes:
        status: the HTTP status.
        headers: their names in lower case.
        body: the body, whole.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes


def check_address(url: str, *, with_key: bool, allow_plain_http: bool) -> str:
    """The base URL without a slash at its end.

    Raises:
        InvalidEndpoint: it is not an address of a server, holds a password, or a key would
            travel to another computer where everybody could read it.

    >>> check_address("http://localhost:8000/v1/", with_key=True, allow_plain_http=False)
    'http://localhost:8000/v1'
    """
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, UnicodeError) as error:
        raise InvalidEndpoint(f"The base URL {url!r} is not a URL: {error}.") from None
    if parsed.userinfo or parsed.query or parsed.fragment:
        raise InvalidEndpoint(
            f"The base URL of {parsed.host!r} holds more than an address (a password, or "
            "something after '?' or '#'), which would be shown in messages; give keys as keys."
        )
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise InvalidEndpoint(
            f"The base URL {url!r} does not begin with http:// or https:// and a host; "
            "write it as in http://localhost:8000/v1."
        )
    local = parsed.host in LOCAL_HOSTS
    if parsed.scheme == "http" and with_key and not local and not allow_plain_http:
        raise InvalidEndpoint(
            f"The key would travel to {parsed.host!r} unencrypted; use https://, or allow plain "
            "HTTP (allow_plain_http=True) if you trust the network."
        )
    return url.rstrip("/")


def is_local(url: str) -> bool:
    """Whether an address is one of this computer; what is no address is not.

    >>> is_local("http://127.0.0.1:8000/v1"), is_local("http://127.0.0.1.far.example/v1")
    (True, False)
    """
    try:
        return httpx.URL(url).host in LOCAL_HOSTS
    except (httpx.InvalidURL, UnicodeError):
        return False


class HttpClient:
    """Posts JSON. Connections are kept for as long as the event loop runs.

    Args:
        proxy: the URL of a proxy; None takes the usual environment variables.
        ca_file: certificates to trust instead of the usual ones.
        max_body: the longest body that is read (bytes).

    Raises:
        InvalidEndpoint: the file of certificates cannot be used.
    """

    def __init__(
        self,
        *,
        proxy: str | None = None,
        ca_file: Path | None = None,
        max_body: int = 32 * 1024 * 1024,
    ) -> None:
        trusted = _usual_trust() if ca_file is None else _trust(ca_file)
        self._max_body = max_body
        self._sessions = PerLoop(lambda: _Session(proxy, trusted))

    async def post(self, url: str, body: bytes, key: Secret | None = None) -> HttpReply:
        """Send JSON and return what the server sent, with the key removed from it.

        Raises:
            TransportFailure: no whole reply arrived.
            Malformed: the reply is too long.
            InvalidEndpoint: the proxy cannot be used.
        """
        headers = {"content-type": "application/json", "accept": "application/json"}
        client = await self._sessions.get().open()
        try:
            async with client.stream(
                "POST", url, content=body, headers=headers, auth=_authorise(key)
            ) as response:
                content = await self._read(response)
        except (httpx.HTTPError, OSError) as error:
            final = UNTRUSTED in str(error)
            raise TransportFailure(_explain(url, error, key), final=final) from None
        sent = {name.lower(): value for name, value in response.headers.items()}
        if key is not None:
            content = key.redact_bytes(content)
            sent = {name: key.redact(value) for name, value in sent.items()}
        return HttpReply(response.status_code, sent, content)

    async def aclose(self) -> None:
        """Close the connections of the running event loop; they are opened again when needed."""
        session = self._sessions.pop()
        if session is not None:
            await session.close()

    async def _read(self, response: httpx.Response) -> bytes:
        content = bytearray()
        async for piece in response.aiter_bytes():
            content += piece
            if len(content) > self._max_body:
                raise Malformed(
                    f"The reply is longer than {self._max_body} bytes; a limit on tokens keeps "
                    "replies short.",
                    fault="it is too long",
                )
        return bytes(content)


class _Session:
    """The connections of one event loop.

    They are held by an asynchronous generator, because that is what an event loop finishes by
    itself before it ends; so they are closed in time even if nobody calls `close`.
    """

    def __init__(self, proxy: str | None, trusted: ssl.SSLContext) -> None:
        try:
            self._client = httpx.AsyncClient(
                proxy=proxy,
                verify=trusted,
                timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
            )
        except (ValueError, ImportError, httpx.InvalidURL) as error:
            raise InvalidEndpoint(
                f"The proxy cannot be used: {error}. Correct it, or the environment variable "
                "that names it (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY)."
            ) from None
        self._lifetime: AsyncGenerator[None, None] | None = None

    async def open(self) -> httpx.AsyncClient:
        if self._lifetime is None:
            self._lifetime = self._hold()
            await anext(self._lifetime)
        return self._client

    async def close(self) -> None:
        if self._lifetime is not None:
            await self._lifetime.aclose()

    async def _hold(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            await self._client.aclose()


@cache
def _usual_trust() -> ssl.SSLContext:
    """The usual certificates; reading them takes a while, so that is done once."""
    return httpx.create_ssl_context()


def _trust(ca_file: Path) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise InvalidEndpoint(
            f"The file of certificates {ca_file} cannot be used: {error.strerror or error}."
        ) from None


def _authorise(key: Secret | None) -> Callable[[httpx.Request], httpx.Request]:
    """Put the key in at the last moment, so that nothing else ever holds the header."""

    def add(request: httpx.Request) -> httpx.Request:
        if key is not None:
            _REDACTING.keys.add(key)
            request.headers["authorization"] = f"Bearer {key.reveal()}"
        return request

    return add


class _Redacting(logging.Filter):
    """Takes keys out of what the HTTP library logs: headers of replies, which may repeat them."""

    def __init__(self) -> None:
        super().__init__()
        self.keys: WeakSet[Secret] = WeakSet()

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        for key in self.keys:
            message = key.redact(message)
        record.msg, record.args = message, None
        return True


_REDACTING = _Redacting()
for _name in ("http11", "http2", "proxy"):
    logging.getLogger(f"httpcore.{_name}").addFilter(_REDACTING)


def _explain(url: str, error: Exception, key: Secret | None) -> str:
    detail = str(error) or type(error).__name__
    if key is not None:
        detail = key.redact(detail)
    hint = "check the address, and that the server is running"
    if UNTRUSTED in detail:
        hint = "if the server has a certificate of its own, give the file that vouches for it"
    elif not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.ProxyError):
        hint = "the connection was lost before the whole reply had arrived"
    return f"No reply from {url}: {detail}; {hint}."
