"""One whole dialogue with a small real language model behind llama.cpp's server."""

import pytest

from balar_core.dialogue import Dialogue, Settings, Setup, User
from llm_oracles.elicitation import Sampling
from llm_oracles.llm_oracle import LLMOracle
from llm_oracles.models import ChatModel, Limits, Server, Trace, TracingModel
from llm_oracles.oracle import run
from llm_oracles.simulated_user import SimulatedUser
from tests.local_model import local_server

SETUP = Setup(
    "Which bike should I buy?",
    "A shop has city bikes and racing bikes.",
    (User("Ann", "a customer"),),
    answers=("a city bike", "a racing bike"),
    settings=Settings(
        max_dimensions=1,
        max_values=2,
        max_initial_questions=1,
        max_choices=2,
        max_questions=1,
        max_states=2,
        min_information=0.0,
        alpha=0.01,
    ),
)


@pytest.mark.slow
def test_a_small_real_model_holds_a_whole_dialogue() -> None:
    trace = Trace()
    sampling = Sampling(temperature=0.7, seed=1, max_tokens=600)
    with local_server() as url:
        server = Server(url, limits=Limits(concurrency=1), timeout=120)
        model = TracingModel(ChatModel(server, "smollm2", extra={"cache_prompt": False}), trace.add)
        private = "I ride ten kilometres to work, in all weathers."
        user = SimulatedUser(model, private, sampling=sampling, repairs=6)
        oracle = LLMOracle(model, users=user, sampling=sampling, repairs=6)
        dialogue = run(Dialogue.start(SETUP), oracle)
    assert dialogue.finished
    assert dialogue.conclusion is not None
    assert dialogue.conclusion.answer in ("a city bike", "a racing bike")
    posterior = dialogue.answer_posterior()
    assert posterior is not None
    assert sum(posterior.values()) == pytest.approx(1, abs=1e-5)
    assert {"dimensions", "priors", "questions", "likelihoods", "answers", "conclusion"} <= {
        event.purpose for event in trace.events
    }
    assert trace.usage.unmetered == 0
