"""A language model that infers intents, plans probes and words answers."""

from typing import Any

from pydantic import BaseModel

from balar_core.codec import Json
from balar_core.errors import InvalidInput
from balar_core.probing import (
    AnsweredQuery,
    AnswerQuery,
    CallTool,
    InferIntent,
    InferredIntent,
    IntentFrame,
    PlanProbe,
    Probe,
    StopProbing,
    Tool,
    ToolCall,
)

from ..elicitation import (
    Asker,
    OnProgress,
    Preset,
    Progress,
    Sampling,
    Task,
    UnusableReply,
    instruction,
    schema_of,
)
from ..models import Model, ReplyError

__all__ = ["ModelProber"]

MOST_OUTPUT = 4000
"""Characters of a tool's output that the model is shown."""
MOST_NEEDS = 5


class FrameReply(BaseModel):
    """An intent frame; the reasons come before the numbers."""

    literal_need: str
    implicit_needs: list[str]
    rationale: str
    gap: float
    recommended_probes: list[str]
    alert: bool
    confidence: float


class PlanReply(BaseModel):
    """A call or a stop."""

    reason: str
    action: str
    tool: str
    arguments: str


class AnswerReply(BaseModel):
    """The answer."""

    text: str
    alert: str


class ModelProber:
    """Three parts of a `Crew` that ask a model: `infer`, `plan` and `answer`.

    A reply that cannot be used fails closed: without a frame there is no budget, and without a plan
    the probes end. What goes wrong with the server (no key, no connection) is raised.

    Args:
        model: the model.
        preset: the kind of problem, or its name.
        sampling: how replies are drawn.
        repairs: how often to ask again for what cannot be used.
        on_progress: called whenever a call begins or ends.

    Raises:
        UnknownPreset: there is no preset of this name.
        InvalidSetting: a negative number of repairs.
    """

    def __init__(
        self,
        model: Model,
        *,
        preset: Preset | str = "general",
        sampling: Sampling | None = None,
        repairs: int = 2,
        on_progress: OnProgress | None = None,
    ) -> None:
        self._asker = Asker(
            model, preset=preset, sampling=sampling, repairs=repairs, on_progress=on_progress
        )

    @property
    def progress(self) -> Progress:
        """How far the calls are."""
        return self._asker.progress

    async def infer(self, need: InferIntent) -> InferredIntent:
        """Ask for the intent frame.

        Raises:
            ModelError: the model could not be asked.
        """
        names = [tool.name for tool in need.tools]
        most = {"implicit_needs": MOST_NEEDS, "recommended_probes": len(names)}
        data = {"query": need.query, "context": need.context, "tools": _tools(need.tools)}
        task = self._task("intent", data, schema_of(FrameReply, most=most))

        def read(given: object) -> IntentFrame:
            frame = IntentFrame.from_data(given)
            for name in frame.recommended_probes:
                if name not in names:
                    raise InvalidInput(
                        f"recommended_probes holds {name!r}; the tools are {', '.join(names)}."
                    )
            return frame

        try:
            return InferredIntent(await self._asker.ask(task, read))
        except (UnusableReply, ReplyError) as error:
            return InferredIntent(None, _shown(error))

    async def plan(self, need: PlanProbe) -> CallTool | StopProbing:
        """Ask for the next probe.

        Raises:
            ModelError: the model could not be asked.
        """
        names = [tool.name for tool in need.tools]
        data = {
            "query": need.query,
            "context": need.context,
            "frame": _frame(need.frame),
            "tools": _tools(need.tools),
            "trace": [_probe(probe) for probe in need.trace],
            "calls_left": need.left,
        }
        one_of = {"action": ["call", "stop"], "tool": names}
        task = self._task("probe", data, schema_of(PlanReply, one_of=one_of))
        try:
            return await self._asker.ask(task, _plan)
        except (UnusableReply, ReplyError) as error:
            return StopProbing(_shown(error))

    async def answer(self, need: AnswerQuery) -> AnsweredQuery:
        """Ask for the answer.

        Raises:
            UnusableReply: no reply could be used.
            ModelError: the model gave none.
        """
        frame = need.frame
        data = {
            "query": need.query,
            "context": need.context,
            "literal_need": frame.literal_need if frame else need.query,
            "implicit_needs": list(frame.implicit_needs) if frame else [],
            "trace": [_probe(probe) for probe in need.trace],
        }
        task = self._task("probed_answer", data, schema_of(AnswerReply))

        def read(given: object) -> AnsweredQuery:
            reply = AnswerReply.model_validate(given)
            if not reply.text.strip():
                raise InvalidInput("text is empty.")
            return AnsweredQuery(reply.text, reply.alert)

        return await self._asker.ask(task, read)

    def _task(self, name: str, data: dict[str, Any], schema: dict[str, Any]) -> Task:
        return Task(name, instruction(self._asker.preset, name), data, schema)


def _shown(error: Exception) -> str:
    return str(error).encode(errors="replace").decode()


def _plan(given: object) -> CallTool | StopProbing:
    reply = PlanReply.model_validate(given)
    if reply.action == "stop":
        return StopProbing(reply.reason)
    if reply.action != "call":
        raise InvalidInput(f"action is {reply.action!r}; it is 'call' or 'stop'.")
    # A tool that does not exist or is denied is the loop's business: it refuses and counts it.
    return CallTool(ToolCall(reply.tool, Json(reply.arguments)), reply.reason)


def _tools(tools: tuple[Tool, ...]) -> list[dict[str, Any]]:
    return [
        {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters.value,
            "cost": tool.cost,
        }
        for tool in tools
    ]


def _frame(frame: IntentFrame) -> dict[str, Any]:
    return {
        "literal_need": frame.literal_need,
        "implicit_needs": list(frame.implicit_needs),
        "recommended_probes": list(frame.recommended_probes),
    }


def _probe(probe: Probe) -> dict[str, Any]:
    data: dict[str, Any] = {
        "tool": probe.call.tool,
        "arguments": probe.call.arguments.value,
        "outcome": probe.outcome,
    }
    if probe.outcome == "returned":
        text = probe.output.text
        cut = len(text) > MOST_OUTPUT
        return data | {"output": f"{text[:MOST_OUTPUT]}..." if cut else probe.output.value}
    return data | {"error": probe.error}
