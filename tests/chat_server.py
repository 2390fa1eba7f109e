"""A real HTTP server on loopback that speaks the chat protocol, and misbehaves on demand.

    with ChatServer(["not JSON", error(429, headers={"retry-after": "5"})]) as server:
        model = ChatModel(server.url, "m")

The items of the script are used up in order, one a request; after the last one, `answer` replies.
An item is a `Reply`, a text (the content of a good reply), or a function of the request's JSON that
returns one of these.
"""

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Reply:
    """What goes over the wire, and how.

    Attributes:
        body: the bytes of the body.
        status: the HTTP status.
        headers: they replace those that would be sent otherwise.
        delay: seconds before the first byte.
        drip: seconds before each byte of the body.
        cut_after: the connection is dropped after so many bytes of the body.
    """

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    drip: float = 0.0
    cut_after: int | None = None


Item = Reply | str | Callable[[Any], Any]


def raw(data: object, **how: Any) -> Reply:
    """A reply whose body is any JSON value."""
    return Reply(json.dumps(data, ensure_ascii=False).encode(), **how)


def ok(
    content: object,
    *,
    finish_reason: str | None = "stop",
    usage: tuple[int, int] | None = (10, 5),
    logprobs: object = None,
    message: Mapping[str, object] | None = None,
    **how: Any,
) -> Reply:
    """A completion as a good server sends it."""
    data: dict[str, object] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "test-model",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": content, **(message or {})},
                "finish_reason": finish_reason,
                "logprobs": logprobs,
            }
        ],
    }
    if usage is not None:
        read, written = usage
        data["usage"] = {
            "prompt_tokens": read,
            "completion_tokens": written,
            "total_tokens": read + written,
        }
    return raw(data, **how)


def error(status: int, message: str = "something is wrong", **how: Any) -> Reply:
    """An error as a good server sends it."""
    return raw({"error": {"message": message, "code": None}}, status=status, **how)


def instance(schema: Mapping[str, Any], root: Mapping[str, Any] | None = None) -> Any:
    """The simplest value that follows a JSON schema.

    >>> instance({"type": "object", "properties": {"a": {"enum": ["x", "y"]}}})
    {'a': 'x'}
    """
    root = schema if root is None else root
    if "$ref" in schema:
        return instance(root["$defs"][schema["$ref"].rsplit("/", 1)[-1]], root)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    if "anyOf" in schema:
        return instance(schema["anyOf"][0], root)
    kind = schema.get("type", "object")
    if kind == "object":
        return {name: instance(s, root) for name, s in schema.get("properties", {}).items()}
    if kind == "array":
        return [instance(schema["items"], root) for _ in range(schema.get("minItems", 0))]
    simplest: dict[str, Any] = {
        "string": "x" * max(1, schema.get("minLength", 0)),
        "integer": 0,
        "number": 0.5,
        "boolean": True,
        "null": None,
    }
    return simplest[kind]


def asked_schema(body: Mapping[str, Any]) -> Any:
    """The schema in a request, enforced or told in words; None if there is none."""
    form = body.get("response_format") or {}
    if form.get("type") == "json_schema":
        return form["json_schema"]["schema"]
    _, told, schema = body["messages"][-1]["content"].rpartition("JSON schema:\n")
    return json.loads(schema) if told else None


def obey(body: Mapping[str, Any]) -> str:
    """The content with which a server replies that does as it is told."""
    schema = asked_schema(body)
    return "Hello!" if schema is None else json.dumps(instance(schema))


@dataclass(frozen=True)
class Seen:
    """A request that came in.

    Attributes:
        path: its path.
        headers: its headers, names in lower case.
        body: its JSON.
        at: when, in seconds of the monotonic clock.
    """

    path: str
    headers: Mapping[str, str]
    body: Any
    at: float


class ChatServer:
    """The server; it runs while its `with` block does.

    Args:
        script: what happens to the first requests, in order.
        answer: the reply to all later ones, from the request's JSON.
        delay: seconds that each of those later replies takes, making it up included.
        routes: replies at other paths, such as `/tokenize`, from the request's JSON.
        tls: speak HTTPS with this.

    Attributes:
        seen: the requests so far.
        peak: the largest number of requests that were being answered at the same time.
    """

    def __init__(
        self,
        script: Iterable[Item] = (),
        *,
        answer: Item = obey,
        delay: float = 0.0,
        routes: Mapping[str, Item] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.seen: list[Seen] = []
        self.peak = 0
        self._script = iter(script)
        self._answer = answer
        self._delay = delay
        self._routes = routes or {}
        self._lock = threading.Lock()
        self._current = 0
        self._ending = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._scheme = "http" if tls is None else "https"
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        """The base URL."""
        return f"{self._scheme}://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def bodies(self) -> list[Any]:
        """The JSON of the requests so far."""
        return [seen.body for seen in self.seen]

    def __enter__(self) -> "ChatServer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def respond(self, seen: Seen) -> Reply:
        """The reply to a request."""
        with self._lock:
            self.seen.append(seen)
            self._current += 1
            self.peak = max(self.peak, self._current)
            item = self._routes.get(seen.path)
            delay = 0.0
            if item is None:
                item = next(self._script, None)
            if item is None:
                item, delay = self._answer, self._delay
        while callable(item):
            item = item(seen.body)
        reply = ok(item) if isinstance(item, str) else item
        self.wait(seen.at + delay + reply.delay - time.monotonic())
        return reply

    def done(self) -> None:
        """A request has been answered."""
        with self._lock:
            self._current -= 1

    def wait(self, seconds: float) -> None:
        """Wait, but not beyond the end of the server."""
        if seconds > 0:
            self._ending.wait(seconds)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients may go away at any time; nobody needs to read about it."""


def _handler(owner: ChatServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            length = int(self.headers.get("content-length", 0))
            body = json.loads(self.rfile.read(length) or b"null")
            headers = {name.lower(): value for name, value in self.headers.items()}
            try:
                self._send(owner.respond(Seen(self.path, headers, body, time.monotonic())))
            finally:
                owner.done()

        def _send(self, reply: Reply) -> None:
            self.send_response(reply.status)
            headers = {
                "content-type": "application/json",
                "content-length": str(len(reply.body)),
                "x-request-id": "req-1",
                **reply.headers,
            }
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            body = reply.body[: reply.cut_after]
            if reply.drip:
                for byte in body:
                    owner.wait(reply.drip)
                    self.wfile.write(bytes([byte]))
                    self.wfile.flush()
            else:
                self.wfile.write(body)
            if reply.cut_after is not None:
                self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            """Nothing is printed."""

    return Handler
