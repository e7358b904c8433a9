"""The state of any scheduler of diffusers, as JSON and tensors."""

from __future__ import annotations

from typing import Any

import numpy
import torch

# What from_config sets, or what does not change.
_SKIPPED = {"config", "_internal_dict"}


class Unsupported(TypeError):
    """A scheduler holds something that cannot be saved."""


def snapshot(scheduler: Any) -> dict[str, Any]:
    """Returns the scheduler's attributes. Lists are copied; steps replace tensors, and do not change them."""
    state = {}
    for name, value in vars(scheduler).items():
        if name not in _SKIPPED and not callable(value):
            state[name] = _copy(name, value)
    return state


def put(scheduler: Any, state: dict[str, Any]) -> None:
    """Sets the attributes of a scheduler that has the same class and configuration."""
    for name, value in state.items():
        current = getattr(scheduler, name, None)
        if isinstance(value, torch.Tensor) and isinstance(current, numpy.ndarray):
            setattr(scheduler, name, value.numpy())
        else:
            setattr(scheduler, name, list(value) if isinstance(value, list) else value)


def _copy(name: str, value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str | torch.Tensor):
        return value
    if isinstance(value, numpy.generic):
        return value.item()
    if isinstance(value, numpy.ndarray):
        return torch.from_numpy(value.copy())
    if isinstance(value, list | tuple):
        return [_copy(name, element) for element in value]
    raise Unsupported(f"the scheduler's {name} is a {type(value).__name__}, which cannot be saved")


def flatten(value: Any, tensors: dict[str, torch.Tensor]) -> Any:
    """Returns value as JSON. Tensors go to tensors, and JSON has their names."""
    if isinstance(value, torch.Tensor):
        name = f"t{len(tensors)}"
        tensors[name] = value.detach().to("cpu", copy=True).contiguous()
        return {"tensor": name, "device": value.device.type}
    if isinstance(value, dict):
        return {"dict": {key: flatten(element, tensors) for key, element in value.items()}}
    if isinstance(value, list | tuple):
        return [flatten(element, tensors) for element in value]
    return value


def unflatten(value: Any, tensors: dict[str, torch.Tensor], device: torch.device) -> Any:
    """Undoes flatten. A tensor that was on a GPU comes back on device."""
    if isinstance(value, dict) and "tensor" in value:
        tensor = tensors[value["tensor"]]
        return tensor if value["device"] == "cpu" else tensor.to(device)
    if isinstance(value, dict):
        return {key: unflatten(element, tensors, device) for key, element in value["dict"].items()}
    if isinstance(value, list):
        return [unflatten(element, tensors, device) for element in value]
    return value
