"""A model behind a server that speaks the chat-completions protocol."""

from collections.abc import Mapping

from balar_core.errors import InvalidSetting

from .errors import (
    Malformed,
    ModelError,
    NotAuthorised,
    RequestRejected,
    SchemaUnsupported,
    TransportFailure,
)
from .protocol import TextReply, payload, read_reply
from .server import Call, Server
from .structured import FORMATS, Format, extract_json, refuses_format
from .values import Completion, Request, canonical_json

__all__ = ["ChatModel"]


class ChatModel:
    """A `Model` behind an OpenAI-compatible server: a hosted one, vLLM, llama.cpp, Ollama.

    A request with a schema is asked in the strictest format that the server is believed to
    support. Where it refuses one, the next one is tried, and that is remembered for the server:
    no other model on it asks in this way again. The next one is also tried after a reply that is
    no JSON (so that the schema cannot have been enforced); that is remembered for this model.

    Args:
        server: the server, or just its base URL.
        model: the model, as the server calls it.
        formats: the ways to ask for JSON that are allowed, strictest first.
        replies: how many malformed replies are borne before `Malformed` is raised.
        extra: further fields of every request, for what only some servers understand; None
            removes a field, as in `{"max_tokens": None, "max_completion_tokens": 500}`.

    Raises:
        InvalidSetting: no format is allowed, or no reply.

    Example:
        ```python
        server = Server("https://api.example.com/v1", key=Secret.from_environment("API_KEY"))
        model = ChatModel(server, "some-model")
        completion = await model.complete(Request((Message("user", "Hello!"),)))
        ```
    """

    def __init__(
        self,
        server: Server | str,
        model: str,
        *,
        formats: tuple[Format, ...] = FORMATS,
        replies: int = 3,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        if not formats or not set(formats) <= set(FORMATS):
            raise InvalidSetting(f"The formats are {formats}; take some of {FORMATS}.")
        if replies < 1:
            raise InvalidSetting(f"replies is {replies}; at least 1 is needed.")
        self._server = Server(server) if isinstance(server, str) else server
        self._model = model
        self._formats = formats
        self._replies = replies
        self._extra = dict(extra or {})
        self._first = 0  # the format to begin with

    @property
    def identity(self) -> str:
        """Who replies, as one text: server, model and settings. It holds no key."""
        return canonical_json([self._server.base_url, self._model, self._extra])

    def __repr__(self) -> str:
        return f"ChatModel({self._server!r}, {self._model!r})"

    async def complete(self, request: Request) -> Completion:
        """The model's reply.

        Raises:
            ModelError: there is none; the subclass says why.
        """
        async with self._server.call() as call:
            if request.schema is None:
                reply = await self._ask(call, request, "text")
                return _completion(reply, call)
            return await self._structured(call, request, request.schema)

    async def _structured(
        self, call: Call, request: Request, schema: Mapping[str, object]
    ) -> Completion:
        position, last = self._begin(), len(self._formats) - 1
        tried: list[str] = []
        refused: list[str] = []
        malformed = 0
        while True:
            form = self._formats[position]
            tried.append(form)
            try:
                reply = await self._ask(call, request, form)
                data = extract_json(reply.text, schema)
            except SchemaUnsupported:
                if position == last:
                    raise
                refused.append(form)
            except Malformed:
                malformed += 1
                if malformed == self._replies:
                    raise
            else:
                self._first = max(self._first, position)
                self._server.refused_formats.update(refused)
                return _completion(reply, call, data, tuple(tried))
            position = min(position + 1, last)

    def _begin(self) -> int:
        """The position of the strictest format that may work, or of the last one."""
        last = len(self._formats) - 1
        refused = self._server.refused_formats
        allowed = range(self._first, last)
        return next((at for at in allowed if self._formats[at] not in refused), last)

    async def _ask(self, call: Call, request: Request, form: Format) -> TextReply:
        fields = payload(request, self._model, form, self._extra)
        try:
            return await call.post("chat/completions", fields, read_reply)
        except NotAuthorised:
            raise
        except (RequestRejected, TransportFailure) as error:
            if request.schema is None or form == "text" or not refuses_format(str(error)):
                raise
            raise _unsupported(error, form) from None


def _completion(
    reply: TextReply, call: Call, data: object = None, formats: tuple[str, ...] = ()
) -> Completion:
    return Completion(
        text=reply.text,
        data=data,
        finish_reason=reply.finish_reason,
        usage=call.usage,
        model=reply.model,
        formats=formats,
        token_logprobs=reply.token_logprobs,
    )


def _unsupported(error: ModelError, form: Format) -> SchemaUnsupported:
    return SchemaUnsupported(
        f"The server does not reply in the format {form}: {error} Allow other formats too.",
        status=error.status if isinstance(error, RequestRejected) else 500,
        request_id=error.request_id,
    )
