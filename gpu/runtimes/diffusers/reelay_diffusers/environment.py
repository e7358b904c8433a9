"""The software and hardware on which the last bit of the frames can depend."""

from __future__ import annotations

from typing import Any

import diffusers
import torch
import transformers

from .pipelines import Loaded


def describe(loaded: Loaded) -> dict[str, Any]:
    device = loaded.device
    gpu = device.type == "cuda"
    return {
        "torch": torch.__version__,
        "diffusers": diffusers.__version__,
        "transformers": transformers.__version__,
        "device": torch.cuda.get_device_name(device) if gpu else "CPU",
        "cuda": torch.version.cuda if gpu else None,
        "cudnn": torch.backends.cudnn.version() if gpu else None,
        "threads": None if gpu else torch.get_num_threads(),
        "offload": loaded.settings.offload,
        "vaeTiling": loaded.settings.vae_tiling,
    }


def differences(saved: dict[str, Any], here: dict[str, Any]) -> str:
    """Returns what differs, such as "torch 2.14 → 2.15", or ""."""
    names = sorted(set(saved) | set(here))
    return ", ".join(
        f"{name} {saved.get(name)} → {here.get(name)}" for name in names if saved.get(name) != here.get(name)
    )
