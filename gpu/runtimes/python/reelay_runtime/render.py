"""The rendering of one job: reports, checkpoints, previews."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

from . import checkpoint
from .failure import CheckpointRejected, Failure, InvalidInput
from .job import Job
from .model import ENCODING, RENDERING, RESUMING, Model, Result, Step
from .wire import MAX_TEXT, Outbox, clip

PROGRESS_SECONDS = 0.05  # 20 reports a second are enough for a smooth display
PREVIEW_SECONDS = 3.0
PREVIEW_SHARE = 50  # a preview may take one part in so many of the time
METRICS_SECONDS = 5.0
SAVE_AT = "REELAY_RUNTIME_SAVE_AT"  # a step to save at, for trial.py: a request might come too late


class Drafted(BaseException):
    """Ends a draft at its last step."""


class Render:
    """The state of one job. All methods belong to the thread that renders."""

    def __init__(self, model: Model, job: Job, outbox: Outbox) -> None:
        self.model = model
        self.job = job
        self.outbox = outbox
        self.now = Step(0, 0)
        self.files = 0
        self.identity = ""
        self.reported = (0.0, "")
        self.pace = Pace()
        self.saved_step = 0
        self.preview_due = time.monotonic() + PREVIEW_SECONDS
        self.metrics_due = 0.0
        self.save_at = int(os.environ.get(SAVE_AT, "0"))

    def run(self) -> Result:
        """Does the job. It raises Stopped if the job was cancelled."""
        self.job.render = self
        self.job.check_cancelled()
        if self.job.draft_steps and not self.model.offers("preview"):
            raise InvalidInput("This model makes no previews, so it cannot make a draft.")
        self.model.begin(self.job)
        self.identity = self.job.digest(self.model.identity(self.job))
        self._resume()
        try:
            self._attend()
            return self._walk(self.model.steps(self.job))
        except Drafted:
            return Result(preview=self._preview())

    def _walk(self, steps: Iterator[Step]) -> Result:
        try:
            while True:
                try:
                    self.report(next(steps))
                except StopIteration as end:
                    return end.value if isinstance(end.value, Result) else Result()
        finally:
            if isinstance(steps, Generator):
                steps.close()

    def report(self, step: Step) -> None:
        self.pace.add(step)
        self.now = step
        self._progress(step)
        self._attend()

    def attend(self) -> None:
        """Does what cannot wait for the end of a step."""
        self.job.check_cancelled()
        if self.job.take_checkpoint_request():
            self._checkpoint()

    def _attend(self) -> None:
        """Does what is due between two steps."""
        self.job.check_cancelled()
        drafted = self._drafted()
        every = self.model.checkpoint_every
        due = every > 0 and self.now.step >= self.saved_step + every and self.now.phase == RENDERING
        asked = self.now.step == self.save_at > self.saved_step
        if self.job.take_checkpoint_request() or self.now.checkpoint or due or drafted or asked:
            self._checkpoint()
        if drafted:
            raise Drafted
        if self.model.offers("preview") and self.now.phase == RENDERING and self.now.step > 0:
            self._preview_if_due()

    def _drafted(self) -> bool:
        if not self.job.draft_steps or not self.now.step:
            return False
        return self.now.step >= self.job.draft_steps or self.now.step == self.now.total

    def _progress(self, step: Step) -> None:
        now = time.monotonic()
        sent, phase = self.reported
        if step.phase == phase and now - sent < PROGRESS_SECONDS and step.step != step.total:
            return
        self.reported = now, step.phase
        report: dict[str, Any] = {"percent": round(step.percent, 1), "phase": step.phase}
        optional = {
            "message": clip(step.message),
            "step": step.step,
            "totalSteps": step.total,
            "frame": step.frame,
            "totalFrames": step.total_frames,
            "etaSeconds": round(self.pace.eta(), 1),
        }
        self.outbox.send("progress", report | {name: value for name, value in optional.items() if value})
        if now >= self.metrics_due and self.pace.step_seconds:
            self.metrics_due = now + METRICS_SECONDS
            metrics: dict[str, Any] = {"stepSeconds": round(self.pace.step_seconds, 6)}
            if memory := self.model.gpu_memory_bytes():
                metrics["gpuMemoryBytes"] = memory
            self.outbox.send("metrics", metrics)

    def _checkpoint(self) -> None:
        """Saves the state and reports the file. If it cannot be written, the job goes on."""
        answer: dict[str, Any] = {"step": self.now.step, "percent": round(self.now.percent, 1)}
        if self.model.offers("save") and self.now.total:
            path = self._new_file(".checkpoint")
            try:
                checkpoint.write(path, self._describe(), self.model.save)
            except OSError as error:
                self.log("error", f"no checkpoint at step {self.now.step}: {error}")
            else:
                self.saved_step = self.now.step
                answer |= {"path": str(path), "info": self._info()}
        self.outbox.send("checkpoint", answer)

    def _info(self) -> dict[str, Any]:
        return {"format": checkpoint.FORMAT, "version": checkpoint.VERSION, "runtime": self.model.runtime}

    def _describe(self) -> dict[str, Any]:
        return self._info() | {
            "identity": self.identity,
            "step": self.now.step,
            "total": self.now.total,
            "phase": self.now.phase,
        }

    def _new_file(self, suffix: str) -> Path:
        """Returns a path that no file has had: the agent may still read an earlier one."""
        while True:
            self.files += 1
            path = self.job.workdir / f"step-{self.now.step:06d}-{self.files}{suffix}"
            if not path.exists():
                return path

    def _resume(self) -> None:
        for path, _ in self.job.checkpoints:
            self.job.check_cancelled()
            try:
                described, note = self._restore(Path(path))
            except Failure:
                raise
            except Exception as error:
                if self.model.translate(error):
                    raise
                reason = clip(self._reason(error))
                self.outbox.send("checkpointRejected", {"path": path, "reason": reason})
                self.model.begin(self.job)  # a failed restore can leave half a state
                continue
            step, total = int(described["step"]), int(described["total"])
            self.now = Step(step, total, phase=RESUMING)
            self.saved_step = step
            resumed = {"path": path, "step": step}
            self.outbox.send("resumed", resumed | {"note": clip(note)} if note else resumed)
            message = f"resuming from checkpoint at {self.now.percent:.0f} %"
            self._progress(Step(step, total, message, RESUMING))
            return

    def _reason(self, error: Exception) -> str:
        if isinstance(error, CheckpointRejected) and str(error):
            return str(error)
        self.log("warn", "".join(traceback.format_exception(error)))
        return f"the model cannot restore it: {type(error).__name__}: {error}"

    def _restore(self, path: Path) -> tuple[dict[str, Any], str | None]:
        if not self.model.offers("restore"):
            raise CheckpointRejected("this model cannot resume")
        content = self._new_file(".restored")
        try:
            described = checkpoint.read(path, content)
            if described.get("identity") != self.identity:
                raise CheckpointRejected(
                    "it belongs to another video: the model, the prompt, the parameters or the inputs differ"
                )
            return described, self.model.restore(content)
        finally:
            content.unlink(missing_ok=True)

    def _preview_if_due(self) -> None:
        began = time.monotonic()
        if began < self.preview_due:
            return
        try:
            path = self._preview()
        except Exception as error:  # a job does not fail for its preview
            self.log("warn", f"no preview at step {self.now.step}: {type(error).__name__}: {error}")
        else:
            self.outbox.send("preview", {"path": path, "step": self.now.step})
        took = time.monotonic() - began
        self.preview_due = began + max(PREVIEW_SECONDS, PREVIEW_SHARE * took)
        self.pace.exclude(took)

    def _preview(self) -> str:
        path = self._new_file(self.model.preview_suffix)
        self.model.preview(path)
        return str(path)

    def log(self, level: str, message: str) -> None:
        self.outbox.send("log", {"level": level, "message": clip(message, 64 << 10)})

    def send_handle(self, value: str) -> None:
        # The errors do not quote the value: it can be a secret.
        if not isinstance(value, str):
            raise TypeError(f"a handle is a str, and not a {type(value).__name__}")
        if "\0" in value or any(char == "\ufffd" or "\ud800" <= char <= "\udfff" for char in value):
            raise ValueError("a handle has no NUL, U+FFFD or surrogate: encode bytes in base64")
        if len(value.encode()) > MAX_TEXT:
            raise ValueError(f"a handle has at most {MAX_TEXT} bytes")
        self.outbox.send("handle", {"value": value})


class Pace:
    """How fast the steps of a phase are, and so when it ends."""

    def __init__(self) -> None:
        self.phase = ""
        self.begun = self.latest = time.monotonic()
        self.first = self.done = self.total = 0

    def add(self, step: Step) -> None:
        encoding = step.phase == ENCODING
        done, total = (step.frame, step.total_frames) if encoding else (step.step, step.total)
        if step.phase != self.phase:
            # The time of a phase's first step includes what came before it.
            self.phase, self.begun, self.first = step.phase, time.monotonic(), done
            self.latest = self.begun
        elif done > self.done:
            self.latest = time.monotonic()
        self.done, self.total = done, total

    def exclude(self, seconds: float) -> None:
        self.begun += seconds

    @property
    def step_seconds(self) -> float:
        """Returns the seconds of a step, or 0 if that is unknown."""
        if self.done <= self.first or self.phase == ENCODING:
            return 0.0
        return self._each()

    def eta(self) -> float:
        """Returns the seconds that the rest of the phase takes, or 0 if that is unknown."""
        if self.done <= self.first:
            return 0.0
        return self._each() * max(self.total - self.done, 0)

    def _each(self) -> float:
        return (self.latest - self.begun) / (self.done - self.first)
