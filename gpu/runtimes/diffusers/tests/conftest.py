"""Renders with the tiny pipelines, in this process and through the kit."""

from __future__ import annotations

import hashlib
import itertools
import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from reelay_runtime.entry import Entry
from reelay_runtime.job import Job, Stopped
from reelay_runtime.render import Render

from reelay_diffusers import pipelines, tiny
from reelay_diffusers.model import DiffusersModel

torch.set_num_threads(1)

UNIPC = {
    "class": "UniPCMultistepScheduler",
    "args": {"prediction_type": "flow_prediction", "use_flow_sigmas": True, "flow_shift": 3.0},
}
STOCHASTIC = {"class": "FlowMatchEulerDiscreteScheduler", "args": {"stochastic_sampling": True}}
STEPS = 4
PARAMS = {"size": "64x64", "frames": 9, "fps": 8, "steps": STEPS, "seed": 7}

Message = tuple[str, dict[str, Any]]


class Recorder:
    """Stands in for the pipe to the agent. on_message may cancel the job."""

    def __init__(self, on_message: Callable[[Message], None]) -> None:
        self.messages: list[Message] = []
        self.on_message = on_message

    def send(self, name: str, body: Mapping[str, Any]) -> None:
        self.messages.append((name, dict(body)))
        self.on_message(self.messages[-1])


class Attempt:
    """One attempt at a job: what it said, and what it made."""

    def __init__(self, messages: list[Message], video: Path | None) -> None:
        self.messages = messages
        self.video = video

    @property
    def digest(self) -> str:
        assert self.video, "the attempt was interrupted"
        return hashlib.sha256(self.video.read_bytes()).hexdigest()

    def of(self, name: str) -> list[dict[str, Any]]:
        return [body for said, body in self.messages if said == name]

    def checkpoint(self, step: int, number: int = 0) -> dict[str, Any]:
        return [saved for saved in self.of("checkpoint") if saved["step"] == step][number]


class Bench:
    """A model in this process, and its jobs."""

    def __init__(self, folder: Path, model: DiffusersModel, entry: Entry) -> None:
        self.folder, self.model, self.entry = folder, model, entry
        self.jobs = 0

    def job(self, **fields: Any) -> Job:
        self.jobs += 1
        workdir = self.folder / f"job-{self.jobs}"
        workdir.mkdir(parents=True)
        start = {"job": "job_1", "prompt": "a calm sea", "workdir": str(workdir), "params": PARAMS} | fields
        assert self.model.loaded
        if self.model.loaded.kind.image and "inputs" not in fields:
            start["inputs"] = {"referenceImage": str(picture(workdir / "input-0", 1))}
        return Job(start, self.entry)

    def attempt(self, resume: Path | str | None = None, until: int | None = None, **fields: Any) -> Attempt:
        """Does a job, or its rest. It saves after each step, and stops after saving step until."""
        given = [{"path": str(resume), "step": 0}] if resume else []
        job = self.job(checkpoints=given, **fields)

        def on_message(message: Message) -> None:
            if message[0] == "checkpoint" and message[1]["step"] == until:
                job.cancel()

        recorder = Recorder(on_message)
        self.model.checkpoint_every = 1
        try:
            result = Render(self.model, job, recorder).run()  # type: ignore[arg-type]
        except Stopped:
            assert until is not None
            return Attempt(recorder.messages, None)
        recorder.messages.append(("result", {"output": result.output, "preview": result.preview}))
        return Attempt(recorder.messages, job.workdir / "video.mp4")


def picture(path: Path, shade: int) -> Path:
    gradient = Image.linear_gradient("L").resize((90, 70)).point(lambda value: value * shade % 256)
    Image.merge("RGB", (gradient, gradient.rotate(90), gradient.rotate(180))).save(path, "PNG")
    return path


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Returns the folders of tiny weights, by the class of the pipeline."""
    folders = {}
    for name in pipelines.KINDS:
        folders[name] = tmp_path_factory.mktemp(name)
        tiny.write(folders[name], name)
    return folders


Benches = Callable[..., Bench]


@pytest.fixture
def bench(weights: dict[str, Path], tmp_path: Path) -> Benches:
    """Returns a function that loads a pipeline."""

    numbers = itertools.count()

    def load(pipeline: str, **settings: Any) -> Bench:
        entry = Entry("tiny", 1, {"pipeline": pipeline, "weights": str(weights[pipeline])} | settings)
        model = DiffusersModel()
        model.load(entry)
        return Bench(tmp_path / f"jobs-{next(numbers)}", model, entry)

    return load
