"""A small MCP server over its standard streams, for tests."""

import asyncio

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
    server.run(transport="stdio")
