"""Calls a pipeline so that it continues after a step that an earlier call finished.

No pipeline can resume by itself, and none of their loops is copied here. Instead, the pipeline
is called from its beginning. While it walks through the steps that are already done, its
transformers and its scheduler are stand-ins that compute nothing. At the end of the last of
them, the callback puts the saved latents, scheduler and random generators in place and takes
the stand-ins away. So the timesteps, the choice of the expert and the guidance of each step
remain the pipeline's own.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from reelay_runtime import CheckpointCorrupt

from .pipelines import Loaded
from .scheduler import put, snapshot
from .state import Random, State


class Walk:
    """One call of a pipeline. on_step is called after each new step, when state is up to date."""

    def __init__(self, loaded: Loaded, state: State, random: Random, on_step: Callable[[], None]) -> None:
        self.loaded, self.state, self.random, self.on_step = loaded, state, random, on_step
        self.finished = state.step  # steps to walk through
        self.extras = state.extras

    def run(self, arguments: dict[str, Any]) -> Any:
        """Returns what the pipeline returns."""
        pipe = self.loaded.pipe
        with contextlib.ExitStack() as stack, torch.no_grad():
            stack.callback(pipe.maybe_free_model_hooks)
            stack.enter_context(self._watch_scheduler())
            self.stand_ins = stack.enter_context(contextlib.ExitStack())
            if self.finished:
                for transformer in self.loaded.transformers:
                    self.stand_ins.enter_context(_replaced(transformer, "forward", _return_input))
            return pipe(
                **arguments,
                **self.state.embeddings,
                generator=self.random.generator,
                callback_on_step_end=self._step_ended,
                callback_on_step_end_tensor_inputs=["latents"],
            )

    @contextlib.contextmanager
    def _watch_scheduler(self) -> Iterator[None]:
        scheduler = self.loaded.pipe.scheduler
        real = scheduler.step

        # Pipelines look at the signature to decide whether to pass a generator, so it stays.
        @functools.wraps(real)
        def step(model_output: Any, timestep: Any, sample: Any, *args: Any, **kwargs: Any) -> Any:
            if self.finished:
                return (sample, *self.extras)
            returned = real(model_output, timestep, sample, *args, **kwargs)
            self.extras = list(returned[1:]) if isinstance(returned, tuple) else []
            return returned

        with _replaced(scheduler, "step", step):
            yield

    def _step_ended(self, pipe: Any, index: int, timestep: Any, tensors: dict[str, Any]) -> dict[str, Any]:
        done = index + 1
        if done < self.finished:
            return {}
        if done == self.finished:
            self._continue(pipe.scheduler)
            return {"latents": self.state.latents}
        self.state.step = done
        self.state.latents = tensors["latents"]
        self.state.extras = self.extras
        self.state.scheduler = snapshot(pipe.scheduler)
        self.state.random = self.random.state()
        self.on_step()
        return {}

    def _continue(self, scheduler: Any) -> None:
        saved = self.state.scheduler
        for name in ("timesteps", "sigmas"):
            current = getattr(scheduler, name, None)
            if isinstance(current, torch.Tensor) and not torch.equal(current.cpu(), saved[name].cpu()):
                raise CheckpointCorrupt(f"The checkpoint has other {name} than this job.")
        put(scheduler, saved)
        self.random.put(self.state.random)
        self.stand_ins.close()
        self.finished = 0


def _return_input(hidden_states: Any, *args: Any, **kwargs: Any) -> tuple[Any]:
    return (hidden_states,)


@contextlib.contextmanager
def _replaced(target: Any, name: str, stand_in: Any) -> Iterator[None]:
    """Replaces a method of one object. What libraries have put there before comes back."""
    own = vars(target).get(name)
    setattr(target, name, stand_in)
    try:
        yield
    finally:
        if own is None:
            delattr(target, name)
        else:
            setattr(target, name, own)
