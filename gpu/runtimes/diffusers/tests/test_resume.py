"""A job that was interrupted makes the same video, byte by byte, as one that was not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import PARAMS, STEPS, STOCHASTIC, UNIPC, Attempt, Bench, Benches, picture
from diffusers import WanPipeline
from reelay_runtime import Job, checkpoint
from reelay_runtime.entry import Entry

from reelay_diffusers import state, tiny, walk
from reelay_diffusers.model import DiffusersModel
from reelay_diffusers.pipelines import KINDS

SCHEDULERS = {"multistep": UNIPC, "stochastic": STOCHASTIC}


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("pipeline", KINDS)
def test_after_every_step(bench: Benches, pipeline: str, scheduler: str) -> None:
    rig = bench(pipeline, scheduler=SCHEDULERS[scheduler])
    undisturbed = rig.attempt()
    steps = [saved["step"] for saved in undisturbed.of("checkpoint")]
    assert steps == [0, *range(1, STEPS + 1), STEPS], "after the prompt, each step, and the decoding"
    assert rig.attempt().digest == undisturbed.digest, "the same model makes the same video again"

    # From each of them to the end.
    for saved in undisturbed.of("checkpoint"):
        resumed = rig.attempt(saved["path"])
        assert resumed.of("resumed") == [{"path": saved["path"], "step": saved["step"]}]
        assert resumed.digest == undisturbed.digest, f"resumed at step {saved['step']}"

    # One step at a time, each in a model that has just been loaded.
    path = None
    for step in range(STEPS + 1):
        rig = bench(pipeline, scheduler=SCHEDULERS[scheduler])
        path = rig.attempt(path, until=step).checkpoint(step)["path"]
    assert rig.attempt(path).digest == undisturbed.digest


# The negative controls resume in the middle: the last step of both schedulers has order 1 and no noise.
MIDDLE = STEPS // 2


def test_needs_the_state_of_the_scheduler(bench: Benches, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = bench("WanPipeline", scheduler=UNIPC)
    undisturbed = rig.attempt()
    path = undisturbed.checkpoint(MIDDLE)["path"]

    def put_index_only(scheduler: Any, saved: dict[str, Any]) -> None:
        scheduler._step_index = saved["_step_index"]

    monkeypatch.setattr(walk, "put", put_index_only)
    resumed = rig.attempt(path)
    assert resumed.of("resumed")
    assert resumed.digest != undisturbed.digest


def test_needs_the_random_generators(bench: Benches, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = bench("LTXPipeline", scheduler=STOCHASTIC)
    undisturbed = rig.attempt()
    path = undisturbed.checkpoint(MIDDLE)["path"]
    monkeypatch.setattr(state.Random, "put", lambda *_: None)
    resumed = rig.attempt(path)
    assert resumed.of("resumed")
    assert resumed.digest != undisturbed.digest


def test_needs_the_latents(bench: Benches, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = bench("LTXPipeline")
    undisturbed = rig.attempt()
    path = undisturbed.checkpoint(MIDDLE)["path"]
    load = state.State.load

    def load_other(*arguments: Any) -> Any:
        loaded, saved = load(*arguments)
        assert loaded.latents is not None
        loaded.latents[0, 0, 0] += 1
        return loaded, saved

    monkeypatch.setattr(state.State, "load", staticmethod(load_other))
    assert rig.attempt(path).digest != undisturbed.digest


def test_noise_of_the_decoder(bench: Benches) -> None:
    """The decoder of LTX draws from the generator after the last step."""
    rig = bench("LTXPipeline", call={"decode_timestep": 0.05, "decode_noise_scale": 0.5})
    undisturbed = rig.attempt()
    for step in (1, STEPS):
        assert rig.attempt(undisturbed.checkpoint(step)["path"]).digest == undisturbed.digest
    plain = bench("LTXPipeline", call={"decode_timestep": 0.05, "decode_noise_scale": 0.0})
    assert plain.attempt().digest != undisturbed.digest


@pytest.mark.parametrize("pipeline", KINDS)
def test_in_half_precision(bench: Benches, pipeline: str) -> None:
    """The dtypes that a GPU has by default."""
    vae = {"vaeDtype": KINDS[pipeline].vae_dtype} if KINDS[pipeline].vae_dtype else {}
    rig = bench(pipeline, scheduler=UNIPC, dtype="bfloat16", **vae)
    undisturbed = rig.attempt()
    resumed = rig.attempt(undisturbed.checkpoint(MIDDLE)["path"])
    assert resumed.of("resumed")
    assert resumed.digest == undisturbed.digest


def test_two_experts(tmp_path: Path) -> None:
    """Wan 2.2 has a transformer for the first steps and another for the last."""
    torch.manual_seed(1)
    parts = tiny.PARTS["WanPipeline"]()
    parts["transformer_2"] = tiny.PARTS["WanPipeline"]()["transformer"]
    WanPipeline(**parts, boundary_ratio=0.7).save_pretrained(tmp_path / "weights")
    settings = {
        "pipeline": "WanPipeline",
        "weights": str(tmp_path / "weights"),
        "call": {"guidance_scale_2": 2.5},
    }
    model = DiffusersModel()
    model.load(Entry("tiny", 1, settings))
    rig = Bench(tmp_path / "jobs", model, Entry("tiny", 1, settings))
    undisturbed = rig.attempt()
    for saved in undisturbed.of("checkpoint"):
        assert rig.attempt(saved["path"]).digest == undisturbed.digest


@pytest.mark.parametrize("pipeline", KINDS)
def test_cancel_within_a_step(bench: Benches, monkeypatch: pytest.MonkeyPatch, pipeline: str) -> None:
    rig = bench(pipeline)
    undisturbed = rig.attempt()
    assert rig.model.loaded
    transformer = rig.model.loaded.pipe.transformer
    forward = transformer.forward
    jobs: list[Job] = []
    begin = rig.model.begin
    monkeypatch.setattr(rig.model, "begin", lambda job: jobs.append(job) or begin(job))

    def cancel(*arguments: Any, **named: Any) -> Any:
        if rig.model.state.step == 2:
            jobs[-1].cancel()
        return forward(*arguments, **named)

    monkeypatch.setattr(transformer, "forward", cancel)
    cancelled = rig.attempt(until=99)
    assert [saved["step"] for saved in cancelled.of("checkpoint")] == [0, 1, 2]
    monkeypatch.undo()
    assert rig.attempt().digest == undisturbed.digest, "the cancel left nothing behind"
    assert rig.attempt(cancelled.checkpoint(2)["path"]).digest == undisturbed.digest


@pytest.mark.parametrize("pipeline", KINDS)
def test_saves_within_a_step(bench: Benches, monkeypatch: pytest.MonkeyPatch, pipeline: str) -> None:
    rig = bench(pipeline, scheduler=UNIPC)
    undisturbed = rig.attempt()
    assert rig.model.loaded
    jobs: list[Job] = []
    begin = rig.model.begin
    monkeypatch.setattr(rig.model, "begin", lambda job: jobs.append(job) or begin(job))
    transformer = rig.model.loaded.pipe.transformer
    hook = transformer.register_forward_pre_hook(lambda *_: jobs[-1].ask_checkpoint())
    attempt = rig.attempt()
    hook.remove()
    assert attempt.digest == undisturbed.digest
    for step in (0, 1, STEPS - 1):
        # The first is from the end of the step, the second from within the next one.
        saved = attempt.checkpoint(step, number=1)
        assert rig.attempt(saved["path"]).digest == undisturbed.digest


@pytest.mark.parametrize("pipeline", KINDS)
def test_saves_while_it_decodes(bench: Benches, monkeypatch: pytest.MonkeyPatch, pipeline: str) -> None:
    rig = bench(pipeline)
    undisturbed = rig.attempt()
    assert rig.model.loaded
    decoder = rig.model.loaded.pipe.vae.decoder
    jobs: list[Job] = []
    begin = rig.model.begin
    monkeypatch.setattr(rig.model, "begin", lambda job: jobs.append(job) or begin(job))
    hook = decoder.register_forward_pre_hook(lambda *_: jobs[-1].ask_checkpoint(), prepend=True)
    attempt = rig.attempt()
    hook.remove()
    saved = [saved for saved in attempt.of("checkpoint") if saved["step"] == STEPS]
    assert len(saved) >= 3, "after the last step, while it decodes, and after that"
    assert attempt.digest == undisturbed.digest
    assert rig.attempt(saved[1]["path"]).digest == undisturbed.digest


def rejected(attempt: Attempt) -> str:
    """Returns why the checkpoint was rejected, or fails."""
    assert not attempt.of("resumed")
    (message,) = attempt.of("checkpointRejected")
    return str(message["reason"])


def test_rejects_a_checkpoint_of_another_video(
    bench: Benches, weights: dict[str, Path], tmp_path: Path
) -> None:
    rig = bench("WanImageToVideoPipeline")
    path = rig.attempt(until=2).checkpoint(2)["path"]
    for fields in (
        {"prompt": "a red sea"},
        {"params": PARAMS | {"seed": 8}},
        {"params": PARAMS | {"steps": 5}},
        {"params": PARAMS | {"guidanceScale": 4.5}},
        {"params": PARAMS | {"negativePrompt": "red"}},
        {"inputs": {"referenceImage": str(picture(tmp_path / "other", 3))}},
    ):
        assert "another video" in rejected(rig.attempt(path, until=0, **fields))

    for settings in (
        {"scheduler": STOCHASTIC},
        {"scheduler": {"args": {"flow_shift": 5.0}}},
        {"dtype": "float16"},
    ):
        other = bench("WanImageToVideoPipeline", **settings)
        assert "another video" in rejected(other.attempt(path, until=0))


def test_determinism(bench: Benches, monkeypatch: pytest.MonkeyPatch) -> None:
    rig, torch_version = bench("WanPipeline"), torch.__version__
    path = rig.attempt(until=2).checkpoint(2)["path"]
    strict = rig.attempt(path, determinism="strict")
    assert strict.of("resumed") == [{"path": path, "step": 2}]

    monkeypatch.setattr("torch.__version__", "9.9.0")
    assert " → 9.9.0" in rejected(rig.attempt(path, until=0, determinism="strict"))
    (resumed,) = rig.attempt(path).of("resumed")
    assert resumed["note"] == f"resumed with another fingerprint: torch {torch_version} → 9.9.0"


def test_rejects_what_is_no_state(bench: Benches, tmp_path: Path) -> None:
    rig = bench("WanPipeline")
    path = Path(rig.attempt(until=2).checkpoint(2)["path"])
    described = checkpoint.read(path, tmp_path / "content")
    checkpoint.write(tmp_path / "foreign", described, lambda file: file.write_bytes(b"not safetensors"))
    assert "the model cannot restore it" in rejected(rig.attempt(tmp_path / "foreign", until=0))
    path.write_bytes(path.read_bytes()[:-100])
    assert "cut short" in rejected(rig.attempt(path, until=0))


class Runtime:
    """A runtime in a process of its own."""

    def __init__(self, log: Path) -> None:
        folder = Path(__file__).parent.parent
        paths = os.pathsep.join([str(folder), str(folder.parent / "python")])
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "reelay_diffusers"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
            )

    def send(self, name: str, **fields: Any) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps({name: fields}).encode() + b"\n")
        self.process.stdin.flush()

    def expect(self, name: str) -> dict[str, Any]:
        assert self.process.stdout
        for line in self.process.stdout:
            ((said, body),) = json.loads(line).items()
            if said == name:
                return dict(body)
            assert said not in ("error", "result", "cancelled"), line
        raise AssertionError("the runtime has ended")


@pytest.mark.parametrize("pipeline", ["LTXPipeline", "WanPipeline"])
def test_after_a_real_kill(weights: dict[str, Path], tmp_path: Path, pipeline: str) -> None:
    settings = {"pipeline": pipeline, "weights": str(weights[pipeline]), "scheduler": UNIPC}
    first = tmp_path / "first"
    first.mkdir()
    start = {"job": "a", "model": "tiny", "prompt": "a calm sea", "params": PARAMS, "settings": settings}

    runtime = Runtime(tmp_path / "log")
    runtime.send("load", model="tiny", version=1, settings=settings)
    runtime.expect("loaded")
    runtime.send("start", **start, workdir=str(first))
    saved = runtime.expect("checkpoint")
    while saved["step"] < 1:
        runtime.send("checkpoint")
        saved = runtime.expect("checkpoint")
    runtime.process.kill()
    runtime.process.wait()

    videos = []
    runtime = Runtime(tmp_path / "log")
    for name, given in (("second", [{"path": saved["path"], "step": saved["step"]}]), ("third", [])):
        workdir = tmp_path / name
        workdir.mkdir()
        runtime.send("start", **start, workdir=str(workdir), checkpoints=given)
        if given:
            assert runtime.expect("resumed")["step"] == saved["step"]
        videos.append(Path(runtime.expect("result")["video"]).read_bytes())
    runtime.send("shutdown")
    assert runtime.process.wait(30) == 0
    assert videos[0] == videos[1]
