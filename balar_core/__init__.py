"""The numerics of balar: beliefs, questions, answers and decisions.

Everything in this package is a computation on values that it is handed. It
reads no file, opens no connection and prints nothing, and it depends on
nothing but JAX, NumPy, Equinox and Optax.

>>> from balar_core import Belief, LikelihoodTables, StateSpace, mutual_information
>>> space = StateSpace.of(cause=["tension", "migraine"], trigger=["screen", "sleep", "food"])
>>> belief = Belief.from_priors(space, [("likely", "neutral"), ("likely", "neutral", "unlikely")])
>>> does_light_hurt = [[("unlikely", "likely"), ("likely", "unlikely")], None]
>>> tables = LikelihoodTables.build(space, [2], {(0, 0): does_light_hurt})
>>> round(mutual_information(belief, tables).item(), 3)  # nats
0.183
"""

from balar_core._version import __version__
from balar_core.answers import AnswerTables, answer_posterior
from balar_core.belief import (
    Belief,
    MapState,
    Update,
    entropy,
    expand,
    joint,
    map_state,
    marginals,
    raise_for_status,
    update,
)
from balar_core.decision import (
    Decision,
    Response,
    Rule,
    Turn,
    decide,
    respond,
    target_entropy,
    turn,
)
from balar_core.errors import BalarError
from balar_core.information import (
    Scores,
    dimension_information,
    mutual_information,
    predictive,
    score,
)
from balar_core.labels import DEFAULT_LABELS, LabelMap, evidence_weights
from balar_core.questions import Question, User
from balar_core.space import Dimension, Layout, StateSpace
from balar_core.status import Action, Status
from balar_core.tables import LikelihoodTables

__all__ = [
    "DEFAULT_LABELS",
    "Action",
    "AnswerTables",
    "BalarError",
    "Belief",
    "Decision",
    "Dimension",
    "LabelMap",
    "Layout",
    "LikelihoodTables",
    "MapState",
    "Question",
    "Response",
    "Rule",
    "Scores",
    "StateSpace",
    "Status",
    "Turn",
    "Update",
    "User",
    "__version__",
    "answer_posterior",
    "decide",
    "dimension_information",
    "entropy",
    "evidence_weights",
    "expand",
    "joint",
    "map_state",
    "marginals",
    "mutual_information",
    "predictive",
    "raise_for_status",
    "respond",
    "score",
    "target_entropy",
    "turn",
    "update",
]
