"""A dialogue as one JSON object: what was found out, by which questions, how surely."""

import json
import math
from typing import Any

from balar_core.dialogue import Answered, Ask, Concluded, Dialogue

from .history import steps

__all__ = ["dumps", "report"]


def report(dialogue: Dialogue, problem: str) -> dict[str, Any]:
    """Sum up a dialogue, finished or not; entropies and informations are in nats.

    Args:
        dialogue: the dialogue; its belief has to exist.
        problem: the name of the problem.
    """
    asked = [
        (step.before, step.need)
        for step in steps(dialogue)
        if isinstance(step.need, Ask) and isinstance(step.reply, Answered)
    ]
    state, probability = dialogue.map_state()
    outcome = dialogue.outcome
    concluded = dialogue.conclusion or Concluded()
    total = len(dialogue.explain(about=False).candidates)
    saved = total - len(asked) if outcome is not None and outcome.settled else 0
    first = asked[0][0] if asked else dialogue
    return {
        "problem": problem,
        "prompt": dialogue.setup.prompt,
        "finished": dialogue.finished,
        "outcome": None if outcome is None else {"reason": outcome.reason, "words": outcome.words},
        "answer": concluded.answer,
        "conclusion": concluded.text,
        "state": {"values": state, "probability": probability},
        "answers": dialogue.answer_posterior(),
        "marginals": dialogue.marginals(),
        "questions": {"asked": len(asked), "total": total, "saved": saved},
        "entropy": {"before": first.entropy, "after": dialogue.entropy},
        "conversation": [
            {
                "question": exchange.question,
                "user": exchange.user,
                "choices": list(exchange.choices),
                "reply": exchange.reply,
                "evidence": list(exchange.evidence),
                "information": need.information,
            }
            for exchange, (_, need) in zip(dialogue.conversation, asked, strict=False)
        ],
    }


def dumps(data: dict[str, Any]) -> str:
    """The JSON text of a report; what is no number in JSON (infinite, undefined) is null."""
    return json.dumps(_finite(data), indent=2, ensure_ascii=False, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
