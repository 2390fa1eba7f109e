"""Language models: clients of servers, and wrappers that record, cache, limit and watch them."""

from .budget import Budget, BudgetModel
from .cache import CachingModel
from .cassette import RecordingModel, ReplayingModel
from .client import ChatModel
from .errors import (
    BudgetExceeded,
    DeadlineExceeded,
    InvalidEndpoint,
    InvalidKey,
    Malformed,
    ModelError,
    NotAuthorised,
    RateLimited,
    Refused,
    ReplayMiss,
    ReplyError,
    RequestRejected,
    SchemaUnsupported,
    ScoringUnsupported,
    StorageTrouble,
    Temporary,
    TransportFailure,
    Truncated,
)
from .likelihood import ScoringModel, Way, label_distribution
from .limits import Limits
from .model import LikelihoodModel, Model
from .probe import Findings, probe
from .retry import RetryPolicy
from .secrets import Secret
from .server import Price, Server
from .tracing import Event, Trace, TracingModel
from .values import (
    Completion,
    Message,
    Request,
    TokenScore,
    TokenScores,
    Usage,
    canonical_json,
    content_address,
)

__all__ = [
    "Budget",
    "BudgetExceeded",
    "BudgetModel",
    "CachingModel",
    "ChatModel",
    "Completion",
    "DeadlineExceeded",
    "Event",
    "Findings",
    "InvalidEndpoint",
    "InvalidKey",
    "LikelihoodModel",
    "Limits",
    "Malformed",
    "Message",
    "Model",
    "ModelError",
    "NotAuthorised",
    "Price",
    "RateLimited",
    "RecordingModel",
    "Refused",
    "ReplayMiss",
    "ReplayingModel",
    "ReplyError",
    "Request",
    "RequestRejected",
    "RetryPolicy",
    "SchemaUnsupported",
    "ScoringModel",
    "ScoringUnsupported",
    "Secret",
    "Server",
    "StorageTrouble",
    "Temporary",
    "TokenScore",
    "TokenScores",
    "Trace",
    "TracingModel",
    "TransportFailure",
    "Truncated",
    "Usage",
    "Way",
    "canonical_json",
    "content_address",
    "label_distribution",
    "probe",
]
