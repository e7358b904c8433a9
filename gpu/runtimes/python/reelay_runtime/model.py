"""What a model implements: one class, four methods, and a few that are optional."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .entry import Entry
    from .failure import Failure
    from .job import Job

RESUMING = "RESUMING"
LOADING_MODEL = "LOADING_MODEL"
RENDERING = "RENDERING"
ENCODING = "ENCODING"

RENDERED_PERCENT = 90  # where rendering ends and encoding begins
ENCODED_PERCENT = 99


@dataclass(frozen=True)
class Step:
    """The progress after a step. Between two steps, the state of the model can be saved.

    The percentage follows from step and total in RENDERING (0 to 90 %), and from frame and
    total_frames in ENCODING (90 to 99 %).
    """

    step: int
    total: int
    message: str = ""
    phase: str = RENDERING
    frame: int = 0
    total_frames: int = 0
    checkpoint: bool = False  # save now, although the agent has not asked

    @property
    def percent(self) -> float:
        if self.phase == ENCODING:
            share = self.frame / self.total_frames if self.total_frames else 0.0
            return RENDERED_PERCENT + (ENCODED_PERCENT - RENDERED_PERCENT) * min(share, 1.0)
        return RENDERED_PERCENT * min(self.step / self.total, 1.0) if self.total else 0.0


@dataclass(frozen=True)
class Result:
    """The end of a job that succeeded. Paths are absolute, or relative to the job's workdir."""

    video: str | Path = ""
    thumbnail: str | Path = ""
    spritesheet: str | Path = ""
    preview: str | Path = ""
    output: Any = None  # any JSON


class Model:
    """A model, or several. Derive a class from it and give an instance to serve.

    For each job, the kit calls begin, then restore for the checkpoints until one of them
    restores, and then steps. All calls come from the thread that called serve.
    """

    #: The name and version of this program, for people.
    runtime = "unnamed 0"

    #: The models that it serves, each with its version. Empty means whatever the agent names.
    models: Mapping[str, str] = {}

    #: Save every so many steps without being asked. 0 means never.
    checkpoint_every = 0

    #: The extension of what preview writes: .jpg, .png, .webp, .mp4 or .webm.
    preview_suffix = ".jpg"

    def load(self, model: Entry) -> float | None:
        """Loads a model into memory, where it stays. Unloads the one that was there.

        It may return how many seconds of that time it downloaded the weights.
        """
        return None

    def begin(self, job: Job) -> None:
        """Checks the job's parameters and makes its first state. Raises InvalidInput."""

    def steps(self, job: Job) -> Iterator[Step]:
        """Does the rest of the job from the current state, and yields after each step.

        Write it as a generator that ends with return Result(…). It is closed at its yield
        if the job is cancelled: end what you started for the job in a finally block.
        """
        raise NotImplementedError

    def save(self, path: Path) -> None:
        """Writes the current state to path. A model without save starts from scratch.

        The kit makes the file durable and adds a checksum. Raise ModelCrash if the state
        has non-finite values, so that it never spoils the next attempt.
        """
        raise NotImplementedError

    def restore(self, path: Path) -> str | None:
        """Replaces the current state with the one that save wrote.

        The kit has checked that the file is whole, and that identity is the same. Raise
        CheckpointRejected if it cannot be used. Any text that it returns is a note to the
        operators, such as "resumed with torch 2.15, saved with 2.14".
        """
        raise NotImplementedError

    def identity(self, job: Job) -> Mapping[str, Any]:
        """Returns what the frames depend on, besides the inputs, as JSON.

        A checkpoint of a job with another identity is rejected.
        """
        return {
            "runtime": self.runtime,
            "model": job.model.name,
            "settings": dict(job.model.settings),
            "params": dict(job.params),
            "prompt": job.prompt,
        }

    def preview(self, path: Path) -> None:
        """Writes a picture or short clip of the current state to path.

        It is called at most every 3 seconds, and less often if it takes long.
        """
        raise NotImplementedError

    def gpu_memory_bytes(self) -> int:
        """Returns how much GPU memory is in use, or 0 if that is unknown."""
        return 0

    def translate(self, error: Exception) -> Failure | None:
        """Returns the failure that an exception of a library means, or None for MODEL_CRASH."""
        return None

    def follow(self) -> None:
        """Does the work of the ranks other than 0 in a torchrun group.

        The kit calls it instead of speaking the protocol, if the environment's RANK is not 0.
        Rank 0 has to send them what to do, for example by torch.distributed.
        """
        raise NotImplementedError("this model runs in one process, and RANK is not 0")

    def offers(self, method: str) -> bool:
        """Reports whether the model implements an optional method."""
        return getattr(type(self), method) is not getattr(Model, method)
