"""The ways in which a load or a job can fail."""

from __future__ import annotations


class Failure(Exception):
    """Ends a load or a job. The class decides what happens to the job next.

    The message is a sentence for people: what went wrong, why, and what to do. Raise a
    subclass. Any other exception is reported as MODEL_CRASH, with its traceback.
    """

    failure_class = "MODEL_CRASH"

    def __init__(self, message: str, *, detail: str = "", retry_after_seconds: int = 0) -> None:
        super().__init__(message)
        self.detail = detail
        self.retry_after_seconds = retry_after_seconds


class InvalidInput(Failure):
    """The request can never work. The job fails."""

    failure_class = "INVALID_INPUT"


class ContentPolicy(Failure):
    """The request is not allowed. The job fails."""

    failure_class = "CONTENT_POLICY"


class Unauthorized(Failure):
    """An external service refuses the operator's credentials. The job fails."""

    failure_class = "UNAUTHORIZED"


class Transient(Failure):
    """It may work later. The job is retried with backoff."""

    failure_class = "TRANSIENT"


class TimedOut(Failure):
    """Something took too long. The job is retried with backoff."""

    failure_class = "TIMEOUT"


class RateLimited(Failure):
    """An external service limits the rate. The job is retried after retry_after_seconds."""

    failure_class = "RATE_LIMITED"


class ProviderUnavailable(Failure):
    """An external service is down. The job is retried after retry_after_seconds."""

    failure_class = "PROVIDER_UNAVAILABLE"


class EndpointFailed(Failure):
    """A server that the job itself names failed: its owner must act. The job is retried."""

    failure_class = "ENDPOINT_FAILED"


class OutOfMemory(Failure):
    """This GPU is too small. The job is retried, on a larger one if there is one."""

    failure_class = "OUT_OF_MEMORY"


class CheckpointCorrupt(Failure):
    """The job can neither resume from what it was given nor start from scratch."""

    failure_class = "CHECKPOINT_CORRUPT"


class ModelCrash(Failure):
    """Anything else, such as a CUDA error. The agent kills the runtime and retries elsewhere."""

    failure_class = "MODEL_CRASH"


class CheckpointRejected(Exception):
    """Raise it in restore: this checkpoint cannot be used, for the given reason.

    It is not a failure. The kit reports it and tries the next older checkpoint.
    """
