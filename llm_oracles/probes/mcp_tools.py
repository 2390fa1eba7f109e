"""Tools of servers that speak the Model Context Protocol, through its official client.

async with mcp_tools(toolbox, ["python", "my_server.py"]):
    ...  # the toolbox has the tools of the server

Needs the extra `balar[mcp]`.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from balar_core.codec import Json
from balar_core.errors import BalarError
from balar_core.probing import Tool

from .toolbox import Toolbox

if TYPE_CHECKING:
    from mcp import Client

__all__ = ["McpMissing", "McpToolFailed", "McpUnreachable", "mcp_tools"]


class McpMissing(BalarError, ImportError):
    """The official client is not installed."""


class McpUnreachable(BalarError):
    """A server cannot be started or reached."""


class McpToolFailed(BalarError):
    """A server says that its tool has failed."""


@asynccontextmanager
async def mcp_tools(
    toolbox: Toolbox,
    server: str | Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    costs: Mapping[str, float] | None = None,
    reveals: Mapping[str, Sequence[str]] | None = None,
) -> AsyncIterator[tuple[Tool, ...]]:
    """Put all tools of a server into a toolbox, for as long as the connection lasts.

    The server checks the arguments of calls, so that a call it rejects counts as one that failed.
    What it says of its tools is shown to planners; what a tool costs and reveals is for the user to
    say, since a server is not to be trusted with it.

    Args:
        toolbox: where the tools go.
        server: the command line of a server that speaks over its standard streams, or the URL of
            one that speaks HTTP.
        env: environment variables for the command.
        costs: name of a tool -> the cost of a call.
        reveals: name of a tool -> what its output can hold.

    Yields:
        The tools that were added.

    Raises:
        McpMissing: the official client is not installed.
        McpUnreachable: the server cannot be started or reached.
        InvalidTool: a name that is taken, or a cost that cannot be used.
    """
    client = _client(server, env)
    failure: Exception | None = None
    added: list[Tool] = []
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(client)
            listed = await _list(client)
        except Exception as error:
            shown = server if isinstance(server, str) else " ".join(server)
            raise McpUnreachable(
                f"The MCP server {shown!r} cannot be used: {_reason(error)}. Check the command or "
                "the URL."
            ) from None
        try:
            for found in listed:
                tool = Tool(
                    found.name,
                    found.description or "",
                    Json.of(found.input_schema),
                    (costs or {}).get(found.name, 1.0),
                    tuple((reveals or {}).get(found.name, ())),
                )
                added.append(toolbox.add_tool(tool, partial(_call, client, found.name)))
            yield tuple(added)
        except Exception as error:
            # Raised after the connection is closed, or the client would wrap it in a group.
            failure = error
        finally:
            for tool in added:
                toolbox.remove(tool.name)
    if failure is not None:
        raise failure


def _client(server: str | Sequence[str], env: Mapping[str, str] | None) -> "Client":
    try:
        from mcp import Client, StdioServerParameters
    except ImportError:
        raise McpMissing(
            "Tools of MCP servers need the official client; install it with "
            "`pip install 'balar[mcp]'`."
        ) from None
    if isinstance(server, str):
        return Client(server)
    command, *arguments = server
    variables = None if env is None else dict(env)
    return Client(StdioServerParameters(command=command, args=arguments, env=variables))


async def _list(client: "Client") -> list[Any]:
    """All tools, page by page."""
    page = await client.list_tools()
    tools = list(page.tools)
    while page.next_cursor is not None:
        page = await client.list_tools(cursor=page.next_cursor)
        tools += page.tools
    return tools


async def _call(client: "Client", name: str, arguments: Json) -> object:
    result = await client.call_tool(name, arguments.value)
    texts = [block.text for block in result.content if block.type == "text"]
    if result.is_error:
        raise McpToolFailed(" ".join(texts) or "The server gives no reason.")
    if result.structured_content is not None:
        return result.structured_content
    if len(texts) == len(result.content) == 1:
        return texts[0]
    return [block.model_dump(mode="json", exclude_none=True) for block in result.content]


def _reason(error: BaseException) -> str:
    """The first thing that went wrong, out of however many groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) or type(error).__name__
