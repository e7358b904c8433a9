"""Pictures of latents, without the VAE: fast, and good enough to judge a video early."""

from __future__ import annotations

from pathlib import Path

import torch
from PIL import Image
from reelay_runtime import InvalidInput

from .pipelines import Loaded
from .request import Request

SIDE = 512  # the longer side of a preview, in pixels


def write(path: Path, latents: torch.Tensor, request: Request, loaded: Loaded) -> None:
    """Writes a picture of the latent frame in the middle."""
    volume = unpack(latents, request, loaded)
    frame = volume[:, volume.shape[1] // 2].float().cpu()
    pixels = to_rgb(frame, loaded.settings.rgb_factors)
    image = Image.fromarray(pixels.numpy())
    scale = SIDE / max(request.width, request.height)
    size = round(request.width * scale), round(request.height * scale)
    image.resize(size, Image.Resampling.BICUBIC).save(path, quality=85)


def unpack(latents: torch.Tensor, request: Request, loaded: Loaded) -> torch.Tensor:
    """Returns latents as channels × frames × height × width."""
    if latents.ndim == 5:
        return latents[0]
    pipe = loaded.pipe  # an LTX pipeline, whose latents are a sequence of patches
    return pipe._unpack_latents(
        latents,
        (request.frames - 1) // loaded.temporal + 1,
        request.height // pipe.vae_spatial_compression_ratio,
        request.width // pipe.vae_spatial_compression_ratio,
        pipe.transformer_spatial_patch_size,
        pipe.transformer_temporal_patch_size,
    )[0]


def to_rgb(frame: torch.Tensor, factors: tuple[tuple[float, ...], ...]) -> torch.Tensor:
    """Returns channels × height × width as height × width × 3 bytes.

    The factors say how much of red, green and blue each channel has. Without them, every third
    channel is red, green or blue.
    """
    channels = frame.shape[0]
    if factors and len(factors) != channels:
        raise InvalidInput(f"rgbFactors has {len(factors)} rows, and the latents have {channels} channels.")
    matrix = torch.tensor(factors) if factors else torch.eye(3).repeat(-(-channels // 3), 1)[:channels]
    rgb = torch.einsum("chw,cr->hwr", frame, matrix)
    low, high = rgb.amin(dim=(0, 1)), rgb.amax(dim=(0, 1))
    return ((rgb - low) / (high - low).clamp(min=1e-6) * 255).round().to(torch.uint8)
