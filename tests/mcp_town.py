"""A small MCP server for tests: over its standard streams, or over HTTP at a port."""

import asyncio
import sys

from mcp.server.mcpserver import MCPServer

server = MCPServer("town", log_level="CRITICAL")


@server.tool()
async def mood(agent: str) -> str:
    """How somebody feels."""
    return f"{agent} is calm"


@server.tool()
async def plan(agent: str, hours: int = 1) -> dict[str, list[str]]:
    return {"plan": [agent] * hours}


@server.tool(structured_output=False)
async def words() -> str:
    return "just words"


@server.tool()
async def broken() -> str:
    raise RuntimeError("out of order")


@server.tool()
async def slow() -> str:
    await asyncio.sleep(60)
    return "late"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run(transport="streamable-http", port=int(sys.argv[1]))
    else:
        server.run(transport="stdio")
