"""A model for the tests. Its parameters say how it behaves."""

import contextlib
import ctypes
import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import reelay_runtime
from reelay_runtime import (
    CheckpointRejected,
    Entry,
    Failure,
    InvalidInput,
    Job,
    Model,
    ModelCrash,
    OutOfMemory,
    Result,
    Step,
)

print("a library prints this when it is imported")

DELAY = float(os.environ.get("COUNTER_DELAY", "0"))


class Counter(Model):
    """Each step extends a chain of hashes. The parameter misbehave acts at step misbehaveAt."""

    runtime = "counter 1"
    models = {"counter": "test", "other": ""}

    def load(self, model: Entry) -> float:
        model.progress(50, "half of it")
        if model.settings.get("fail"):
            raise ModelCrash("the weights are not there")
        return float(model.settings.get("fetch", 0))

    def begin(self, job: Job) -> None:
        self.total = job.param("steps", 8, low=1)
        self.checkpoint_every = job.param("every", 0)
        self.step, self.chain = 0, hashlib.sha256(job.prompt.encode()).digest()
        self.job = job

    def steps(self, job: Job) -> Generator[Step, None, Result]:
        try:
            while self.step < self.total:
                if self.step + 1 == job.param("misbehaveAt", 0):
                    self.misbehave(job.param("misbehave", ""))
                self.chain = hashlib.sha256(self.chain).digest()
                self.step += 1
                time.sleep(DELAY)
                yield Step(self.step, self.total, f"step {self.step}")
            for frame in range(3):
                yield Step(self.step, self.total, "encoding", reelay_runtime.ENCODING, frame + 1, 3)
        finally:
            print("cleaned up", file=sys.stderr, flush=True)
        video = job.workdir / "video.mp4"
        video.write_bytes(self.chain)
        unsendable = job.param("misbehave", "") == "output"
        return Result(video="video.mp4", output=object() if unsendable else {"chain": self.chain.hex()})

    def misbehave(self, how: str) -> None:
        match how:
            case "print":
                print("Python prints")
                os.write(1, b"C prints at once\n")
                ctypes.CDLL(None).puts(b"C prints through its buffer")
                subprocess.run(["sh", "-c", "echo a program prints; cat"], check=True)
            case "invalid":
                raise InvalidInput("The sea is too wide. " + "ä" * 2000)
            case "crash":
                raise ZeroDivisionError("division by zero, at " + "\ud800")
            case "out of memory":
                raise FloatingPointError("a library says it in its own way")
            case "exit":
                sys.exit("a library exits")
            case "hang":
                self.job.log("info", "hanging")
                time.sleep(3600)
            case "attend":
                self.job.log("info", "attending")
                while True:
                    self.job.attend()
                    time.sleep(0.01)
            case "wait":
                while True:
                    self.job.check_cancelled()
                    time.sleep(0.01)
            case "talk":
                self.job.log("info", "ö" * 100_000)
                self.job.send_handle("external-7" + self.job.handle)
                self.send_bad_handles()

    def send_bad_handles(self) -> None:
        bad: list[Any] = ["s" * 2001, "ü" * 1001, "a\0", "\ud800", "\ufffd", b"a", 7, None]
        for value in bad:
            with contextlib.suppress(ValueError, TypeError):
                self.job.send_handle(value)
                raise ModelCrash("a bad handle was sent")

    def translate(self, error: Exception) -> Failure | None:
        return OutOfMemory("The GPU is full.") if isinstance(error, FloatingPointError) else None

    def save(self, path: Path) -> None:
        if self.job.param("saves", "") == "disk full":
            raise OSError(28, "No space left on device")
        if self.job.param("saves", "") == "nan":
            raise ModelCrash("The state has values that are not finite.")
        path.write_text(f"{self.step} {self.chain.hex()}")

    def restore(self, path: Path) -> str | None:
        step, chain = path.read_text().split()
        self.step, self.chain = int(step), bytes.fromhex(chain)
        if self.job.strict:
            raise CheckpointRejected("strict")
        return "resumed with another clock" if self.job.param("note", False) else None

    def preview(self, path: Path) -> None:
        path.write_text(f"preview of step {self.step}")


if __name__ == "__main__":
    reelay_runtime.serve(Counter())
