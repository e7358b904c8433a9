"""The state of a job between two steps, and its file."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from reelay_runtime import CheckpointRejected, ModelCrash
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from .scheduler import flatten, unflatten

VERSION = 1
#: Decoded frames of at most this many bytes are saved. Larger ones are decoded again.
MAX_FRAMES_BYTES = 64 << 20


@dataclass
class State:
    """Everything that the rest of a job depends on, besides its request."""

    step: int = 0
    embeddings: dict[str, torch.Tensor] = field(default_factory=dict)
    latents: torch.Tensor | None = None
    extras: list[Any] = field(default_factory=list)  # what scheduler.step returned besides latents
    scheduler: dict[str, Any] = field(default_factory=dict)
    random: dict[str, torch.Tensor] = field(default_factory=dict)
    frames: torch.Tensor | None = None  # decoded: uint8, frames × height × width × 3

    def check_finite(self) -> None:
        """Raises ModelCrash if a value is not finite, so that no checkpoint ever has one."""
        history = [element for value in self.scheduler.values() for element in _tensors(value)]
        for tensor in [*_tensors(self.latents), *self.embeddings.values(), *_tensors(self.extras), *history]:
            # A schedule can end in infinity; what has several dimensions is made of latents.
            if tensor.ndim >= 3 and tensor.is_floating_point() and not torch.isfinite(tensor).all():
                raise ModelCrash(
                    f"The state after step {self.step} has values that are not finite. "
                    "Use another dtype, or a GPU that has no faults."
                )

    def save(self, path: Path, environment: dict[str, Any]) -> None:
        """Writes the state. The environment describes the software and the hardware."""
        self.check_finite()
        frames = self.frames
        if frames is not None and frames.nbytes > MAX_FRAMES_BYTES:
            frames = None
        tensors: dict[str, torch.Tensor] = {}
        values = {
            "embeddings": self.embeddings,
            "latents": self.latents,
            "extras": self.extras,
            "scheduler": self.scheduler,
            "random": self.random,
            "frames": frames,
        }
        described = {
            "version": VERSION,
            "step": self.step,
            "environment": environment,
            "values": flatten(values, tensors),
        }
        try:
            save_file(tensors, path, metadata={"reelay": json.dumps(described)})
        except SafetensorError as error:
            # Such as a full disk. The kit lets the job continue without this checkpoint.
            raise OSError(str(error)) from error

    @staticmethod
    def load(path: Path, device: torch.device) -> tuple[State, dict[str, Any]]:
        """Returns the state in a file, and the environment that wrote it."""
        with safe_open(path, framework="pt") as file:
            described = json.loads((file.metadata() or {}).get("reelay", "{}"))
            if described.get("version") != VERSION:
                raise CheckpointRejected(f"it has version {described.get('version')}, not {VERSION}")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        values = unflatten(described["values"], tensors, device)
        return State(step=described["step"], **values), described["environment"]


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, list):
        return [tensor for element in value for tensor in _tensors(element)]
    return []


class Random:
    """The random generators that a pipeline draws from."""

    def __init__(self, device: torch.device, seed: int) -> None:
        self.device = device
        self.generator = torch.Generator(device).manual_seed(seed)
        # Some schedulers and decoders draw from the global generators.
        torch.manual_seed(seed)

    def state(self) -> dict[str, torch.Tensor]:
        states = {"generator": self.generator.get_state(), "cpu": torch.get_rng_state()}
        if self.device.type == "cuda":
            states["cuda"] = torch.cuda.get_rng_state(self.device)
        return states

    def put(self, states: dict[str, torch.Tensor]) -> None:
        self.generator.set_state(states["generator"])
        torch.set_rng_state(states["cpu"])
        if self.device.type == "cuda" and "cuda" in states:
            torch.cuda.set_rng_state(states["cuda"], self.device)
