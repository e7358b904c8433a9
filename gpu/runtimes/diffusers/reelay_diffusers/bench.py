"""Measures a pipeline on this machine: step, checkpoint, resume.

python3 -m reelay_diffusers.bench --weights FOLDER [--size 832x480 --frames 81 --steps 50]

Without weights it makes random ones: of the real size of Wan 2.1 1.3B on a GPU, which take as long as the
real ones, and tiny ones on a CPU. It does fewer steps than asked if they would take more than --minutes. At
the end it prints one row of a Markdown table, or with --json one object.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import itertools
import json
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from reelay_runtime.entry import Entry
from reelay_runtime.job import Job
from reelay_runtime.render import Render

from . import environment, tiny
from .model import DiffusersModel

BUSY_HOURS = (
    4.0  # between two losses of a worker, for the overhead: what Reelay assumes of a pool without losses
)


class Outbox:
    """Keeps what the runtime would tell the agent."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, dict[str, Any]]] = []

    def send(self, name: str, body: Mapping[str, Any]) -> None:
        self.messages.append((name, dict(body)))

    def of(self, name: str) -> list[dict[str, Any]]:
        return [body for said, body in self.messages if said == name]


class TimedModel(DiffusersModel):
    """Measures its steps, saves and restores. The times are in seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.forget()

    def forget(self) -> None:
        self.began = time.monotonic()
        self.ends: dict[int, float] = {}  # when each step ended, since the start of the job
        self.saves: list[tuple[float, int]] = []  # how long each took, and its bytes
        self.saving = 0.0  # all saves together

    def _denoised(self, checkpoint: bool = False) -> Any:
        if self.state.step not in self.ends:
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            self.ends[self.state.step] = time.monotonic() - self.began - self.saving
        return super()._denoised(checkpoint)

    def save(self, path: Path) -> None:
        began = time.monotonic()
        super().save(path)
        took = time.monotonic() - began
        self.saving += took
        if self.state.frames is None and self.state.step:
            self.saves.append((took, path.stat().st_size))

    @property
    def step_seconds(self) -> float:
        ends = sorted(self.ends.items())
        return statistics.median(after - before for (_, before), (_, after) in itertools.pairwise(ends))


@dataclasses.dataclass(frozen=True)
class Figures:
    """What was measured. Times are in seconds."""

    pipeline: str
    device: str
    video: str
    steps: int
    load: float
    step: float
    checkpoint_bytes: int
    save: float
    resume: float
    same_bytes: bool
    gpu_memory_bytes: int

    @property
    def interval(self) -> float:
        """Returns Young's interval: sqrt(2 x save x time between losses)."""
        return max(math.sqrt(2 * self.save * BUSY_HOURS * 3600), self.step)

    def row(self) -> str:
        overhead = 100 * self.save / self.interval
        return (
            f"| {self.pipeline}, {self.video} | {self.device} | {seconds(self.load)} | {seconds(self.step)} "
            f"| {self.checkpoint_bytes / 1e6:.3g} MB | {seconds(self.save)} | {overhead:.2g} % every "
            f"{seconds(self.interval)} | {seconds(self.resume)} | {'yes' if self.same_bytes else 'no'} |"
        )


HEAD = (
    "| pipeline, video | on | load | step | checkpoint | save | overhead | resume | same bytes |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
)


def seconds(value: float) -> str:
    return f"{value:.3g} s" if value >= 1 else f"{value * 1000:.3g} ms"


def measure(settings: dict[str, Any], params: dict[str, Any], minutes: float, folder: Path) -> Figures:
    say("loading the pipeline")
    model = TimedModel()
    began = time.monotonic()
    entry = Entry("bench", 1, settings, lambda *_: None)
    model.load(entry)
    load = time.monotonic() - began
    assert model.loaded

    say("warming up: 3 steps")
    render(model, entry, params | {"steps": 3}, folder)
    rest = time.monotonic() - began - load - 3 * model.step_seconds  # what is not denoising
    left = minutes * 60 - (time.monotonic() - began) - 2 * rest
    steps = max(4, min(params["steps"], int(left / (1.6 * model.step_seconds))))
    if steps < params["steps"]:
        say(f"only {steps} of {params['steps']} steps fit into {minutes:g} minutes")

    say(f"rendering {steps} steps, {seconds(model.step_seconds)} each")
    model.checkpoint_every = max(1, steps // 4)
    whole, outbox = render(model, entry, params | {"steps": steps}, folder)
    step, saves = model.step_seconds, model.saves
    middle = next(saved for saved in outbox.of("checkpoint") if saved["step"] >= steps // 2)

    say(f"resuming at step {middle['step']}")
    given = [{"path": middle["path"], "step": middle["step"]}]
    resumed, outbox = render(model, entry, params | {"steps": steps}, folder, given)
    if not outbox.of("resumed"):
        raise SystemExit(f"The checkpoint was refused: {outbox.of('checkpointRejected')}")
    device = environment.describe(model.loaded)["device"]
    return Figures(
        pipeline=type(model.loaded.pipe).__name__,
        device=f"{device}, {torch.get_num_threads()} thread(s)" if device == "CPU" else device,
        video=f"{params['frames']} frames of {params['size']}, {steps} steps",
        steps=steps,
        load=load,
        step=step,
        checkpoint_bytes=max(size for _, size in saves),
        save=statistics.median(took for took, _ in saves),
        resume=min(at for done, at in model.ends.items() if done > middle["step"]),
        same_bytes=whole == resumed,
        gpu_memory_bytes=model.gpu_memory_bytes(),
    )


def render(
    model: TimedModel,
    entry: Entry,
    params: dict[str, Any],
    folder: Path,
    checkpoints: list[Any] | None = None,
) -> tuple[str, Outbox]:
    """Does one job. It returns the SHA-256 of the video."""
    workdir = Path(tempfile.mkdtemp(dir=folder))
    start = {"job": "bench", "prompt": "a calm sea", "workdir": str(workdir), "params": params}
    outbox = Outbox()
    model.forget()
    result = Render(model, Job(start | {"checkpoints": checkpoints or []}, entry), outbox).run()
    return hashlib.sha256((workdir / str(result.video)).read_bytes()).hexdigest(), outbox


def say(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)


def main() -> None:
    gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser(prog="reelay_diffusers.bench", description=__doc__.splitlines()[0])
    parser.add_argument("--weights", type=Path, help="the folder of a pipeline")
    parser.add_argument("--pipeline", default="WanPipeline", help="its class")
    parser.add_argument("--size", default="832x480" if gpu else "96x64")
    parser.add_argument("--frames", type=int, default=81 if gpu else 25)
    parser.add_argument("--steps", type=int, default=50 if gpu else 12)
    parser.add_argument("--minutes", type=float, default=9, help="how long it may take")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="reelay-bench-") as made:
        folder = Path(made)
        weights = given.weights
        if weights is None:
            weights = folder / "weights"
            real = gpu and given.pipeline == "WanPipeline"
            say("making random weights of " + ("the size of Wan 2.1 1.3B" if real else "a tiny size"))
            tiny.write(weights, given.pipeline, real=real)
        settings = {"pipeline": given.pipeline, "weights": str(weights)}
        params = {"size": given.size, "frames": given.frames, "fps": 16, "steps": given.steps, "seed": 7}
        figures = measure(settings, params, given.minutes, folder)
    print(json.dumps(dataclasses.asdict(figures)) if given.json else f"{HEAD}\n{figures.row()}")


if __name__ == "__main__":
    main()
