"""A clarifier that learns which question to ask next, and when to stop.

`random_worlds` or `problem_world` give worlds, `train` learns in them, `compare_askers` says how
much was learned; the command `balar train` does all of it. docs/training.md tells more.
"""

from .checkpoint import UnusableCheckpoint, load_policy, load_training, save_training
from .loop import StepRecord, Training, train
from .random_worlds import random_worlds
from .settings import TrainingSettings

__all__ = [
    "StepRecord",
    "Training",
    "TrainingSettings",
    "UnusableCheckpoint",
    "load_policy",
    "load_training",
    "random_worlds",
    "save_training",
    "train",
]
