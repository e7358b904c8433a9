"""The settings of a catalogue entry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from reelay_runtime import InvalidInput

T = TypeVar("T")

DTYPES = ("bfloat16", "float16", "float32")
OFFLOADS = ("none", "model", "sequential")

#: What the settings may pass on to the pipeline's call.
CALL_ARGUMENTS = {
    "decode_timestep",
    "decode_noise_scale",
    "guidance_rescale",
    "guidance_scale_2",
    "max_sequence_length",
}
DEFAULTS = {"steps", "guidanceScale", "fps", "durationSeconds", "resolution", "negativePrompt"}


@dataclass(frozen=True)
class Adapter:
    """A LoRA: a safetensors file, the SHA-256 that it must have, and its weight."""

    path: Path
    sha256: str
    weight: float


@dataclass(frozen=True)
class Settings:
    """The settings of a catalogue entry, checked. The README describes them."""

    pipeline: str
    weights: str
    hub: bool
    revision: str
    scheduler: str
    scheduler_args: Mapping[str, Any]
    dtype: str
    vae_dtype: str
    offload: str
    vae_tiling: bool
    adapters: tuple[Adapter, ...]
    rgb_factors: tuple[tuple[float, ...], ...]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    call: Mapping[str, Any] = field(default_factory=dict)


def parse(settings: Mapping[str, Any]) -> Settings:
    """Checks settings. It raises InvalidInput, which names the setting."""
    known = {
        "pipeline", "weights", "hub", "revision", "scheduler", "dtype", "vaeDtype", "offload",
        "vaeTiling", "adapters", "rgbFactors", "defaults", "call",
    }  # fmt: skip
    if unknown := sorted(set(settings) - known):
        raise InvalidInput(f"The setting {unknown[0]!r} is unknown; there are {', '.join(sorted(known))}.")
    scheduler = _get(settings, "scheduler", dict, {})
    weights = _get(settings, "weights", str, "")
    if not weights:
        raise InvalidInput("The setting weights is missing: a folder, or with hub a name on the hub.")
    return Settings(
        pipeline=_get(settings, "pipeline", str, ""),
        weights=weights,
        hub=_get(settings, "hub", bool, False),
        revision=_get(settings, "revision", str, ""),
        scheduler=_get(scheduler, "class", str, ""),
        scheduler_args=_get(scheduler, "args", dict, {}),
        dtype=_choice(settings, "dtype", DTYPES),
        vae_dtype=_choice(settings, "vaeDtype", DTYPES),
        offload=_choice(settings, "offload", OFFLOADS) or "none",
        vae_tiling=_get(settings, "vaeTiling", bool, False),
        adapters=tuple(_adapter(entry) for entry in _get(settings, "adapters", list, [])),
        rgb_factors=_factors(_get(settings, "rgbFactors", list, [])),
        defaults=_subset(settings, "defaults", DEFAULTS),
        call=_subset(settings, "call", CALL_ARGUMENTS),
    )


def _get(settings: Mapping[str, Any], name: str, kind: type[T], default: T) -> T:
    value = settings.get(name)
    if value is None:
        return default
    if not isinstance(value, kind):
        raise InvalidInput(f"The setting {name} is {str(value)[:100]!r}; it must be a {kind.__name__}.")
    return value


def _choice(settings: Mapping[str, Any], name: str, options: tuple[str, ...]) -> str:
    value = _get(settings, name, str, "")
    if value and value not in options:
        raise InvalidInput(f"The setting {name} is {value!r}; it must be one of: {', '.join(options)}.")
    return value


def _subset(settings: Mapping[str, Any], name: str, allowed: set[str]) -> dict[str, Any]:
    values = _get(settings, name, dict, {})
    if unknown := sorted(set(values) - allowed):
        raise InvalidInput(f"{name} has {unknown[0]!r}; it may have {', '.join(sorted(allowed))}.")
    return values


def _adapter(entry: Any) -> Adapter:
    if not isinstance(entry, dict):
        raise InvalidInput("An element of the setting adapters is not an object.")
    path, sha256 = _get(entry, "path", str, ""), _get(entry, "sha256", str, "").lower()
    if not path.endswith(".safetensors"):
        raise InvalidInput(f"The adapter {path!r} is not a .safetensors file; only these are loaded.")
    if len(sha256) != 64:
        raise InvalidInput(f"The adapter {path!r} needs its sha256, 64 hexadecimal digits.")
    weight = entry.get("weight", 1.0)
    if isinstance(weight, bool) or not isinstance(weight, int | float):
        raise InvalidInput(f"The weight of the adapter {path!r} is {weight!r}; it must be a number.")
    return Adapter(Path(path), sha256, float(weight))


def _factors(rows: list[Any]) -> tuple[tuple[float, ...], ...]:
    for row in rows:
        if not isinstance(row, list) or len(row) != 3 or not all(isinstance(x, int | float) for x in row):
            raise InvalidInput("The setting rgbFactors must be a list of [r, g, b], one for each channel.")
    return tuple(tuple(float(x) for x in row) for row in rows)
