"""Tools as plain coroutine functions.

async def mood(agent: str) -> str:
    "How somebody feels."
    ...

toolbox = Toolbox()
toolbox.add(mood, cost=2, reveals=["private.mood"])
"""

import asyncio
import inspect
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pydantic import PydanticUserError, TypeAdapter, ValidationError

from balar_core.errors import BalarError, InvalidInput, InvalidSetting, InvalidTool
from balar_core.probing import (
    Json,
    RunTool,
    Tool,
    ToolFailed,
    ToolRejected,
    ToolReturned,
)
from balar_core.text import canonical

from ..mistakes import in_words

__all__ = ["RejectedArguments", "Toolbox"]

Start = Callable[[Json], Awaitable[object]]
"""Checks the arguments of a call and begins it; raises `RejectedArguments` if they do not fit."""


class RejectedArguments(BalarError):
    """The arguments of a call do not fit the tool, which therefore was not run."""


@dataclass(frozen=True)
class _Entry:
    tool: Tool
    start: Start


class Toolbox:
    """A registry of tools that runs them.

    Args:
        timeout: seconds that one call may take; None for no limit.

    Raises:
        InvalidSetting: a timeout that is no number above 0.
    """

    def __init__(self, *, timeout: float | None = 30.0) -> None:
        if timeout is not None and not 0 < timeout < math.inf:
            raise InvalidSetting(f"timeout is {timeout!r}; it is a number of seconds above 0.")
        self.timeout = timeout
        self._entries: dict[str, _Entry] = {}

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools in the order in which they were added."""
        return tuple(entry.tool for entry in self._entries.values())

    def add(
        self,
        function: Callable[..., Awaitable[object]],
        *,
        name: str | None = None,
        description: str | None = None,
        cost: float = 1.0,
        reveals: Sequence[str] = (),
    ) -> Tool:
        """Add a coroutine function; its signature becomes the JSON schema of the arguments.

        Arguments are checked against the signature, strictly, before the function is run.

        Args:
            function: the function; what it returns has to be JSON-able.
            name: the name of the tool; that of the function by default.
            description: what it tells; the docstring of the function by default.
            cost: what one call costs.
            reveals: what its output can hold (see `Policy.withhold`).

        Raises:
            InvalidTool: no coroutine function, types without a JSON schema, a bad cost, or a name
                that is taken.
        """
        shown = getattr(function, "__name__", repr(function))
        if not inspect.iscoroutinefunction(function):
            raise InvalidTool(f"{shown} is no coroutine function; define it with `async def`.")
        try:
            adapter: TypeAdapter[Any] = TypeAdapter(cast(Any, function))
            schema = adapter.json_schema()
        except PydanticUserError as error:
            raise InvalidTool(
                f"The arguments of {shown} have no JSON schema: {error.message.splitlines()[0]}"
            ) from None

        if schema.get("type") != "object":
            raise InvalidTool(
                f"{shown} has arguments without a name; a tool is called with named arguments only."
            )

        def start(arguments: Json) -> Awaitable[object]:
            try:
                begun: Awaitable[object] = adapter.validate_json(arguments.text, strict=True)
            except ValidationError as error:
                raise RejectedArguments(in_words(error)) from None
            return begun

        tool = Tool(
            shown if name is None else name,
            inspect.getdoc(function) or "" if description is None else description,
            Json.of(schema),
            cost,
            tuple(reveals),
        )
        return self.add_tool(tool, start)

    def add_tool(self, tool: Tool, start: Start) -> Tool:
        """Add a tool that describes itself.

        Args:
            tool: the tool.
            start: begins a call; what it returns is awaited.

        Raises:
            InvalidTool: there is a tool of this name.
        """
        key = canonical(tool.name)
        if key in self._entries:
            raise InvalidTool(f"There is a tool {tool.name!r} already; give another name.")
        self._entries[key] = _Entry(tool, start)
        return tool

    def remove(self, name: str) -> None:
        """Take a tool out.

        Raises:
            InvalidTool: there is none of this name.
        """
        if self._entries.pop(canonical(name), None) is None:
            raise InvalidTool(f"There is no tool {name!r} in this toolbox.")

    async def run(self, need: RunTool) -> ToolReturned | ToolFailed | ToolRejected:
        """Run a tool. Whatever goes wrong inside it becomes a reply; only cancelling goes through.

        Raises:
            InvalidTool: there is no such tool.
        """
        call = need.call
        entry = self._entries.get(canonical(call.tool))
        if entry is None:
            raise InvalidTool(
                f"There is no tool {call.tool!r} in this toolbox; make the setup with its `tools`."
            )
        try:
            async with asyncio.timeout(self.timeout) as limit:
                output = await entry.start(call.arguments)
        except RejectedArguments as error:
            return ToolRejected(str(error))
        except TimeoutError as error:
            if limit.expired():
                return ToolFailed(f"It took longer than {self.timeout:g} s.")
            return ToolFailed(_shown(error))
        except Exception as error:
            return ToolFailed(_shown(error))
        try:
            return ToolReturned(Json.of(output))
        except InvalidInput as error:
            return ToolFailed(f"What it returned is no JSON: {error}")


def _shown(error: Exception) -> str:
    # What cannot be written as UTF-8 (file names have it) must not get into a trace.
    words = " ".join(str(error).encode(errors="replace").decode().split())[:300]
    name = type(error).__name__
    return f"{name}: {words}" if words else name
