"""Write a Reelay runtime in Python. Derive a class from Model and give it to serve."""

from .entry import Entry
from .failure import (
    CheckpointCorrupt,
    CheckpointRejected,
    ContentPolicy,
    EndpointFailed,
    Failure,
    InvalidInput,
    ModelCrash,
    OutOfMemory,
    ProviderUnavailable,
    RateLimited,
    TimedOut,
    Transient,
    Unauthorized,
)
from .job import Job, Stopped
from .model import ENCODING, RENDERING, Model, Result, Step
from .serve import serve
from .wire import claim_stdio

__all__ = [
    "ENCODING",
    "RENDERING",
    "CheckpointCorrupt",
    "CheckpointRejected",
    "ContentPolicy",
    "EndpointFailed",
    "Entry",
    "Failure",
    "InvalidInput",
    "Job",
    "Model",
    "ModelCrash",
    "OutOfMemory",
    "ProviderUnavailable",
    "RateLimited",
    "Result",
    "Step",
    "Stopped",
    "TimedOut",
    "Transient",
    "Unauthorized",
    "claim_stdio",
    "serve",
]
