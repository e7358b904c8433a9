"""The pipelines that this runtime serves, and how one is loaded."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import diffusers
import torch
from reelay_runtime import InvalidInput

from . import weights
from .scheduler import snapshot
from .settings import Settings


@dataclass(frozen=True)
class Kind:
    """What is particular to the class of a pipeline."""

    fps: int
    steps: int
    guidance_scale: float
    multiple: int  # of the width and the height
    image: bool = False  # begins with an image
    tells_fps: bool = False  # takes frame_rate
    vae_dtype: str = ""  # on a GPU, if it may differ from that of the rest


KINDS = {
    "LTXPipeline": Kind(fps=24, steps=40, guidance_scale=3.0, multiple=32, tells_fps=True),
    "LTXImageToVideoPipeline": Kind(
        fps=24, steps=40, guidance_scale=3.0, multiple=32, tells_fps=True, image=True
    ),
    "WanPipeline": Kind(fps=16, steps=50, guidance_scale=5.0, multiple=16, vae_dtype="float32"),
    "WanImageToVideoPipeline": Kind(
        fps=16, steps=50, guidance_scale=5.0, multiple=16, vae_dtype="float32", image=True
    ),
}

#: How encode_prompt names what it returns, which the call takes under the same names.
EMBEDDINGS = {
    4: (
        "prompt_embeds",
        "prompt_attention_mask",
        "negative_prompt_embeds",
        "negative_prompt_attention_mask",
    ),
    2: ("prompt_embeds", "negative_prompt_embeds"),
}


@dataclass
class Loaded:
    """A pipeline in memory."""

    pipe: Any
    kind: Kind
    settings: Settings
    digest: str  # of the weights
    scheduler: Any  # a new one is made from it for each job
    fetch_seconds: float  # how long the weights were downloaded

    @property
    def device(self) -> torch.device:
        return torch.device(self.pipe._execution_device)

    @property
    def transformers(self) -> list[Any]:
        parts = [self.pipe.transformer, getattr(self.pipe, "transformer_2", None)]
        return [part for part in parts if part is not None]

    @property
    def multiple(self) -> int:
        """Returns what the width and the height are multiples of."""
        pipe, patch = self.pipe, self.transformers[0].config.patch_size
        if hasattr(pipe, "vae_spatial_compression_ratio"):
            return math.lcm(self.kind.multiple, pipe.vae_spatial_compression_ratio * patch)
        return math.lcm(self.kind.multiple, pipe.vae_scale_factor_spatial * patch[1])

    @property
    def temporal(self) -> int:
        """Returns n such that the number of frames is one more than a multiple of n."""
        ratio = getattr(self.pipe, "vae_temporal_compression_ratio", None)
        return int(ratio or self.pipe.vae_scale_factor_temporal)

    def new_scheduler(self) -> None:
        """Gives the pipeline a scheduler without traces of the last job."""
        self.pipe.scheduler = type(self.scheduler).from_config(self.scheduler.config)

    def encode(self, prompt: str, negative: str, guided: bool) -> dict[str, torch.Tensor]:
        """Returns the embeddings of a prompt, as the pipeline's call takes them."""
        arguments: dict[str, Any] = {}
        if "max_sequence_length" in self.settings.call:
            arguments["max_sequence_length"] = self.settings.call["max_sequence_length"]
        with torch.no_grad():
            encoded = self.pipe.encode_prompt(
                prompt=prompt,
                negative_prompt=negative or None,
                do_classifier_free_guidance=guided,
                device=self.device,
                **arguments,
            )
        named = dict(zip(EMBEDDINGS[len(encoded)], encoded, strict=True))
        return {name: tensor for name, tensor in named.items() if tensor is not None}


def load(settings: Settings, progress: Callable[[float, str], None]) -> Loaded:
    """Loads a pipeline as the settings say."""
    kind = KINDS.get(settings.pipeline)
    if kind is None:
        raise InvalidInput(
            f"The setting pipeline is {settings.pipeline!r}; it must be one of: {', '.join(KINDS)}."
        )
    gpu = torch.cuda.is_available()
    if settings.offload != "none" and not gpu:
        raise InvalidInput(f"The setting offload is {settings.offload!r}, which needs a GPU.")
    progress(0, "checking the weights")
    began = time.monotonic()
    folder = weights.find(settings)
    fetched = time.monotonic() - began if settings.hub else 0.0
    digest = weights.check(folder)
    for adapter in settings.adapters:
        weights.check_adapter(adapter)

    dtype = settings.dtype or ("bfloat16" if gpu else "float32")
    vae_dtype = settings.vae_dtype or (kind.vae_dtype if gpu else "") or dtype
    if vae_dtype != dtype and not kind.vae_dtype:
        raise InvalidInput(f"{settings.pipeline} needs its VAE in {dtype} like the rest; leave vaeDtype out.")
    progress(10, f"loading {settings.pipeline} in {dtype}")
    pipe: Any = getattr(diffusers, settings.pipeline).from_pretrained(
        folder,
        torch_dtype={"default": getattr(torch, dtype), "vae": getattr(torch, vae_dtype)},
        use_safetensors=True,
        local_files_only=True,
        low_cpu_mem_usage=True,
    )
    pipe.set_progress_bar_config(disable=True)
    scheduler = _scheduler(settings, pipe.scheduler)
    progress(70, "placing the weights")
    _add_adapters(pipe, settings)
    _place(pipe, settings, gpu)
    return Loaded(pipe, kind, settings, digest, scheduler, fetched)


def _scheduler(settings: Settings, own: Any) -> Any:
    kind: Any = getattr(diffusers, settings.scheduler or type(own).__name__, None)
    if not isinstance(kind, type) or not issubclass(kind, diffusers.SchedulerMixin):
        raise InvalidInput(f"{settings.scheduler!r} is not a scheduler of diffusers.")
    scheduler = kind.from_config(own.config, **settings.scheduler_args)  # type: ignore[attr-defined]
    snapshot(scheduler)  # raises now, not at the first checkpoint
    return scheduler


def _add_adapters(pipe: Any, settings: Settings) -> None:
    names = []
    for number, adapter in enumerate(settings.adapters):
        names.append(f"adapter{number}")
        pipe.load_lora_weights(
            str(adapter.path.parent),
            weight_name=adapter.path.name,
            adapter_name=names[-1],
            local_files_only=True,
        )
    if names:
        pipe.set_adapters(names, [adapter.weight for adapter in settings.adapters])


def _place(pipe: Any, settings: Settings, gpu: bool) -> None:
    if settings.vae_tiling:
        pipe.vae.enable_tiling()
    if settings.offload == "model":
        pipe.enable_model_cpu_offload()
    elif settings.offload == "sequential":
        pipe.enable_sequential_cpu_offload()
    else:
        pipe.to("cuda" if gpu else "cpu")


def unload(loaded: Loaded | None) -> None:
    """Frees the memory of a pipeline."""
    import gc

    if loaded:
        with contextlib.suppress(Exception):
            loaded.pipe.remove_all_hooks()
        loaded.pipe = None
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
