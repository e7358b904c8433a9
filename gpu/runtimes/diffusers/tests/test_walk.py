"""The walk through finished steps, with a pipeline whose scheduler returns more than latents."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
import torch
from reelay_runtime import CheckpointCorrupt, ModelCrash

from reelay_diffusers.state import Random, State
from reelay_diffusers.walk import Walk

STEPS = 5


class Scheduler:
    """Its step mixes in the output of the step before, as CogVideoX's DPM scheduler does."""

    def __init__(self) -> None:
        self.timesteps = torch.arange(STEPS)
        self.count = 0

    def step(self, output: Any, timestep: Any, sample: Any, old: Any, generator: Any) -> tuple[Any, Any]:
        self.count += 1
        noise = torch.randn(sample.shape, generator=generator)
        mixed = output if old is None else (output + old) / 2
        return sample * 0.9 + mixed * self.count + noise, output


class Transformer(torch.nn.Module):
    def forward(self, hidden_states: torch.Tensor) -> tuple[torch.Tensor]:
        return (hidden_states.sin(),)


class Pipeline:
    def __init__(self) -> None:
        self.transformer = Transformer()
        self.scheduler = Scheduler()
        self.freed = 0

    def __call__(self, generator: Any, callback_on_step_end: Any, prompt_embeds: Any, **_: Any) -> Any:
        # Pipelines pass the generator only to a step that has a parameter of that name.
        assert "generator" in inspect.signature(self.scheduler.step).parameters
        latents, old = torch.randn(1, 2, 3, generator=generator) + prompt_embeds, None
        for index, timestep in enumerate(self.scheduler.timesteps):
            output = self.transformer(latents)[0]
            latents, old = self.scheduler.step(output, timestep, latents, old, generator=generator)
            returned = callback_on_step_end(self, index, timestep, {"latents": latents})
            latents = returned.pop("latents", latents)
        return latents

    def maybe_free_model_hooks(self) -> None:
        self.freed += 1


class Loaded:
    def __init__(self) -> None:
        self.pipe = Pipeline()
        self.transformers = [self.pipe.transformer]


class Interrupted(Exception):
    pass


def walk(state: State, until: int = 0) -> tuple[torch.Tensor | None, Loaded]:
    """Calls the pipeline, and interrupts it after step until."""
    loaded = Loaded()

    def on_step() -> None:
        if state.step == until:
            raise Interrupted

    walk = Walk(loaded, state, Random(torch.device("cpu"), 3), on_step)  # type: ignore[arg-type]
    try:
        return walk.run({}), loaded
    except Interrupted:
        return None, loaded


def fresh() -> State:
    return State(embeddings={"prompt_embeds": torch.ones(1)})


@pytest.mark.parametrize("step", range(1, STEPS + 1))
def test_continues_after_each_step(step: int) -> None:
    undisturbed, _ = walk(fresh())
    state = fresh()
    assert walk(state, until=step)[0] is None
    resumed, loaded = walk(state)
    assert undisturbed is not None
    assert resumed is not None
    assert torch.equal(resumed, undisturbed)
    assert state.step == STEPS
    assert loaded.pipe.freed == 1


def test_needs_the_extras() -> None:
    undisturbed, _ = walk(fresh())
    state = fresh()
    walk(state, until=2)
    state.extras = [torch.zeros(1, 2, 3)]
    resumed, _ = walk(state)
    assert undisturbed is not None
    assert resumed is not None
    assert not torch.equal(resumed, undisturbed)


def test_leaves_nothing_behind() -> None:
    state = fresh()
    _, loaded = walk(state, until=2)
    assert "step" not in vars(loaded.pipe.scheduler)
    _, loaded = walk(state, until=4)
    assert "forward" not in vars(loaded.pipe.transformer)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_never_saves_values_that_are_not_finite(tmp_path: Path, value: float) -> None:
    for spoilt in ("latents", "extras", "scheduler", "embeddings"):
        state = fresh()
        walk(state, until=2)
        tensor = torch.full((1, 2, 3), value)
        values = {"latents": tensor, "extras": [tensor], "scheduler": {"history": [None, tensor]}}
        setattr(state, spoilt, values.get(spoilt, {"prompt_embeds": tensor}))
        with pytest.raises(ModelCrash, match="after step 2"):
            state.save(tmp_path / "state", {})
    assert not list(tmp_path.iterdir())
    with pytest.raises(OSError, match="No such file"):
        fresh().save(tmp_path / "nowhere" / "state", {})
    fine = fresh()
    fine.scheduler = {"sigmas": torch.tensor([1.0, float("inf")])}
    fine.save(tmp_path / "state", {})


def test_refuses_another_schedule() -> None:
    state = fresh()
    walk(state, until=2)
    state.scheduler["timesteps"] = torch.arange(STEPS) * 2
    with pytest.raises(CheckpointCorrupt, match="other timesteps"):
        walk(state)
