"""The exact information-gain reward as other trainers of language models call it.

`TrlReward` is a reward function for TRL's GRPOTrainer, `VerlReward` one for verl; neither library
is needed to use them. docs/training.md has an example of each.
"""

from .exact import ExactReward, Scored, UnusableReward
from .markup import Malformed, Turn
from .trl import TrlReward
from .verl import VerlReward

__all__ = [
    "ExactReward",
    "Malformed",
    "Scored",
    "TrlReward",
    "Turn",
    "UnusableReward",
    "VerlReward",
]
