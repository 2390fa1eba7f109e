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
from balar_core.advantages import (
    group_advantages,
    group_keep_mask,
    soft_overlong,
    turn_advantages,
)
from balar_core.aggregation import (
    Loss,
    group_token_mean,
    sequence_mean_token_mean,
    sequence_mean_token_scale,
    token_mean,
)
from balar_core.answers import AnswerTables, answer_posterior
from balar_core.askers import AtRandom, InOrder, MostInformative, Stopping
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
from balar_core.budget import (
    AURA_STEPS,
    Agreement,
    Allowance,
    StepMap,
    agreement,
    belief_gap,
    probe_budget,
)
from balar_core.budget_learning import fit_thresholds, smooth_budget
from balar_core.calibration import (
    Calibration,
    CalibrationData,
    CalibrationPriors,
    Report,
    calibrate,
)
from balar_core.channels import Channels, QuestionScores, noisy_channel, question_scores
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
from balar_core.forecasts import ForecastScores, forecast_scores
from balar_core.information import (
    Scores,
    dimension_information,
    information_about,
    mutual_information,
    predictive,
    score,
    score_many,
)
from balar_core.labels import DEFAULT_LABELS, LabelMap, evidence_weights
from balar_core.listed import ListedBelief, ListedUpdate, Target
from balar_core.objectives import (
    LossTerms,
    clip_fraction,
    dapo_loss,
    dr_grpo_loss,
    grpo_loss,
    kl_penalty,
    token_losses,
)
from balar_core.policy import Likeliest, QuestionPolicy
from balar_core.questions import Question, User
from balar_core.rewards import (
    DialogueRewards,
    Exchanges,
    Gain,
    batch_rewards,
    dialogue_rewards,
    expected_gain,
    pointwise_gain,
)
from balar_core.simulation import (
    Asker,
    Episode,
    Situation,
    World,
    draw_truth,
    simulate,
    simulate_batch,
    stack_worlds,
    take_worlds,
)
from balar_core.space import Dimension, Layout, StateSpace
from balar_core.status import Action, Status
from balar_core.structure import Structure, find_structure
from balar_core.tables import LikelihoodTables
from balar_core.truth import Truth, log_probability, true_answer, true_state, true_value
from balar_core.turn_rewards import (
    discounted_returns,
    log_differences,
    probability_differences,
    to_tokens,
)

__all__ = [
    "AURA_STEPS",
    "DEFAULT_LABELS",
    "Action",
    "Agreement",
    "Allowance",
    "AnswerTables",
    "Asker",
    "AtRandom",
    "BalarError",
    "Belief",
    "Calibration",
    "CalibrationData",
    "CalibrationPriors",
    "Channels",
    "Decision",
    "DialogueRewards",
    "Dimension",
    "Episode",
    "Exchanges",
    "ForecastScores",
    "Gain",
    "InOrder",
    "LabelMap",
    "Layout",
    "Likeliest",
    "LikelihoodTables",
    "ListedBelief",
    "ListedUpdate",
    "Loss",
    "LossTerms",
    "MapState",
    "MostInformative",
    "Question",
    "QuestionPolicy",
    "QuestionScores",
    "Report",
    "Response",
    "Rule",
    "Scores",
    "Situation",
    "StateSpace",
    "Status",
    "StepMap",
    "Stopping",
    "Structure",
    "Target",
    "Truth",
    "Turn",
    "Update",
    "User",
    "World",
    "__version__",
    "agreement",
    "answer_posterior",
    "batch_rewards",
    "belief_gap",
    "calibrate",
    "clip_fraction",
    "dapo_loss",
    "decide",
    "dialogue_rewards",
    "dimension_information",
    "discounted_returns",
    "dr_grpo_loss",
    "draw_truth",
    "entropy",
    "evidence_weights",
    "expand",
    "expected_gain",
    "find_structure",
    "fit_thresholds",
    "forecast_scores",
    "group_advantages",
    "group_keep_mask",
    "group_token_mean",
    "grpo_loss",
    "information_about",
    "joint",
    "kl_penalty",
    "log_differences",
    "log_probability",
    "map_state",
    "marginals",
    "mutual_information",
    "noisy_channel",
    "pointwise_gain",
    "predictive",
    "probability_differences",
    "probe_budget",
    "question_scores",
    "raise_for_status",
    "respond",
    "score",
    "score_many",
    "sequence_mean_token_mean",
    "sequence_mean_token_scale",
    "simulate",
    "simulate_batch",
    "smooth_budget",
    "soft_overlong",
    "stack_worlds",
    "take_worlds",
    "target_entropy",
    "to_tokens",
    "token_losses",
    "token_mean",
    "true_answer",
    "true_state",
    "true_value",
    "turn",
    "turn_advantages",
    "update",
]
