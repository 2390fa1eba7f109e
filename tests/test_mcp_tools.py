"""Tools of a real MCP server, in a process of its own."""

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from balar_core.errors import InvalidTool
from balar_core.probing import (
    AnsweredQuery,
    InferredIntent,
    IntentFrame,
    Probing,
    RunTool,
    Setup,
    ToolCall,
    ToolFailed,
    ToolReturned,
)
from llm_oracles.probes import (
    Crew,
    McpUnreachable,
    RecommendedPlanner,
    Toolbox,
    explore,
    mcp_tools,
)

pytest.importorskip("mcp", reason="needs the extra balar[mcp], which is not installed")

SERVER = [sys.executable, str(Path(__file__).with_name("mcp_town.py"))]


def test_tools_of_a_server_are_listed_called_and_gone_afterwards() -> None:
    async def play() -> None:
        toolbox = Toolbox(timeout=20)
        async with mcp_tools(
            toolbox, SERVER, costs={"plan": 3.0}, reveals={"plan": ["private.plan"]}
        ) as tools:
            assert toolbox.tools == tools
            found = {tool.name: tool for tool in tools}
            assert set(found) == {"mood", "plan", "words", "broken", "slow"}
            assert found["mood"].description == "How somebody feels."
            assert found["mood"].parameters.value["required"] == ["agent"]
            assert (found["plan"].cost, found["plan"].reveals) == (3.0, ("private.plan",))

            async def call(name: str, **arguments: object) -> ToolReturned | ToolFailed:
                reply = await toolbox.run(RunTool(ToolCall.of(name, **arguments)))
                assert isinstance(reply, ToolReturned | ToolFailed)
                return reply

            plan, words = await call("plan", agent="Ann", hours=2), await call("words")
            assert isinstance(plan, ToolReturned)
            assert plan.output.value == {"plan": ["Ann", "Ann"]}
            assert isinstance(words, ToolReturned)
            assert words.output.value == "just words"
            for reply, said in (
                (await call("plan", hours="x"), "agent"),
                (await call("broken"), "McpToolFailed"),
            ):
                assert isinstance(reply, ToolFailed)
                assert said in reply.error
            toolbox.timeout = 0.05
            slow = await call("slow")
            assert isinstance(slow, ToolFailed)
            assert "longer than" in slow.error
            toolbox.timeout = 20

            frame = IntentFrame("where Ann is", gap=0.3, recommended_probes=("mood",))
            crew = Crew(
                lambda need: InferredIntent(frame),
                RecommendedPlanner(lambda tool, need: {"agent": "Ann"}).plan,
                toolbox.run,
                lambda need: AnsweredQuery(need.trace[0].output.text),
            )
            done = await explore(Probing.start(Setup("Where is Ann?", tools=tools)), crew)
            assert done.answer is not None
            assert "Ann is calm" in done.answer.text
        assert toolbox.tools == ()

    asyncio.run(play())


def test_errors_of_the_user_come_out_as_they_are() -> None:
    async def play() -> None:
        async with mcp_tools(Toolbox(), SERVER):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        asyncio.run(play())


def test_name_that_is_taken_is_an_error_and_leaves_the_toolbox_as_it_was() -> None:
    async def mood() -> str:
        return "mine"

    async def play() -> None:
        toolbox = Toolbox()
        mine = toolbox.add(mood)
        with pytest.raises(InvalidTool, match="'mood' already"):
            async with mcp_tools(toolbox, SERVER):
                raise AssertionError("not reached")
        assert toolbox.tools == (mine,)

    asyncio.run(play())


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture
def http_server() -> Iterator[str]:
    port = free_port()
    with subprocess.Popen([*SERVER, str(port)], stderr=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + 30
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    break
                except OSError:
                    assert process.poll() is None and time.monotonic() < deadline
                    time.sleep(0.05)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.kill()


def test_server_over_http_lists_and_runs_the_same_tools(http_server: str) -> None:
    async def play() -> None:
        toolbox = Toolbox(timeout=20)
        async with mcp_tools(toolbox, http_server, reveals={"mood": ["private.mood"]}) as tools:
            assert {tool.name for tool in tools} == {"mood", "plan", "words", "broken", "slow"}
            assert tools[0].reveals == ("private.mood",)
            told = await toolbox.run(RunTool(ToolCall.of("plan", agent="Ann", hours=2)))
            assert isinstance(told, ToolReturned)
            assert told.output.value == {"plan": ["Ann", "Ann"]}
            failed = await toolbox.run(RunTool(ToolCall.of("broken")))
            assert isinstance(failed, ToolFailed)
            assert "McpToolFailed" in failed.error
        assert toolbox.tools == ()

    asyncio.run(play())


def test_address_where_nobody_listens_is_named() -> None:
    url = f"http://127.0.0.1:{free_port()}/mcp"

    async def play() -> None:
        async with mcp_tools(Toolbox(), url):
            raise AssertionError("not reached")

    with pytest.raises(McpUnreachable, match=url):
        asyncio.run(play())


@pytest.mark.parametrize(
    "server", [["/nowhere/server"], [sys.executable, "-c", "raise SystemExit(3)"]]
)
def test_server_that_does_not_answer_is_named(server: list[str]) -> None:
    async def play() -> None:
        async with mcp_tools(Toolbox(), server):
            raise AssertionError("not reached")

    with pytest.raises(McpUnreachable, match="cannot be used"):
        asyncio.run(play())
