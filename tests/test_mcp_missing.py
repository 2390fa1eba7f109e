"""Without the official client the error says what to install."""

import asyncio
import sys

import pytest

from llm_oracles.probes import McpMissing, Toolbox, mcp_tools


def test_missing_client_is_an_error_that_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)

    async def play() -> None:
        async with mcp_tools(Toolbox(), ["server"]):
            raise AssertionError("not reached")

    with pytest.raises(McpMissing, match=r"balar\[mcp\]"):
        asyncio.run(play())
