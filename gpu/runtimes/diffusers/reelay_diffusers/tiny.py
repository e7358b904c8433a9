"""Writes a tiny pipeline with random weights: python3 -m reelay_diffusers.tiny FOLDER --pipeline LTXPipeline

It has the real classes, and is small enough for a CPU. It needs no download, and renders noise.
"""

from __future__ import annotations

import argparse
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import diffusers
import torch
from transformers import (
    CLIPImageProcessor,
    CLIPVisionConfig,
    CLIPVisionModelWithProjection,
    T5Config,
    T5EncoderModel,
    T5Tokenizer,
    UMT5Config,
    UMT5EncoderModel,
)

WIDTH = 32  # of the text encoder


def tokenizer() -> Any:
    """Returns a tokenizer that knows letters and a few words."""
    special = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    words = [("▁" + word, -2.0) for word in "a the sea calm red of with and".split()]
    letters = [(letter, -5.0) for letter in string.ascii_letters + string.digits + ".,"]
    return T5Tokenizer(vocab=[*special, ("▁", -1.0), *words, *letters], extra_ids=0)


def _text(kind: Any, config: Any) -> Any:
    return kind(
        config(
            vocab_size=96,
            d_model=WIDTH,
            d_kv=8,
            d_ff=37,
            num_layers=1,
            num_heads=4,
            pad_token_id=0,
            eos_token_id=1,
        )
    )


def _ltx() -> dict[str, Any]:
    transformer = diffusers.LTXVideoTransformer3DModel(
        in_channels=8,
        out_channels=8,
        num_attention_heads=4,
        attention_head_dim=8,
        cross_attention_dim=WIDTH,
        num_layers=2,
        caption_channels=WIDTH,
    )
    vae = diffusers.AutoencoderKLLTXVideo(
        latent_channels=8,
        block_out_channels=(8, 8, 8, 8),
        decoder_block_out_channels=(8, 8, 8, 8),
        layers_per_block=(1, 1, 1, 1, 1),
        decoder_layers_per_block=(1, 1, 1, 1, 1),
        # The decoder draws noise, as that of LTX 0.9.1 and later.
        timestep_conditioning=True,
    )
    return {
        "tokenizer": tokenizer(),
        "text_encoder": _text(T5EncoderModel, T5Config),
        "transformer": transformer,
        "vae": vae,
        "scheduler": diffusers.FlowMatchEulerDiscreteScheduler(),
    }


def _wan(image: bool) -> dict[str, Any]:
    transformer = diffusers.WanTransformer3DModel(
        num_attention_heads=2,
        attention_head_dim=12,
        in_channels=36 if image else 16,
        out_channels=16,
        text_dim=WIDTH,
        freq_dim=64,
        ffn_dim=32,
        num_layers=2,
        cross_attn_norm=True,
        rope_max_seq_len=64,
        image_dim=4 if image else None,
    )
    vae = diffusers.AutoencoderKLWan(
        base_dim=4,
        z_dim=16,
        dim_mult=[1, 1, 1, 1],
        num_res_blocks=1,
        temperal_downsample=[False, True, True],
    )
    parts = {
        "tokenizer": tokenizer(),
        "text_encoder": _text(UMT5EncoderModel, UMT5Config),
        "transformer": transformer,
        "transformer_2": None,
        "vae": vae,
        "scheduler": diffusers.UniPCMultistepScheduler(
            prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=3.0
        ),
    }
    if image:
        parts["image_encoder"] = CLIPVisionModelWithProjection(
            CLIPVisionConfig(
                hidden_size=4,
                projection_dim=4,
                num_hidden_layers=2,
                num_attention_heads=2,
                image_size=32,
                intermediate_size=16,
                patch_size=8,
            )
        )
        parts["image_processor"] = CLIPImageProcessor(crop_size=32, size=32)
    return parts


def wan_1_3b() -> dict[str, Any]:
    """Returns Wan 2.1 1.3B with random weights, all but the text encoder in their real size.

    The configuration is that of Wan-AI/Wan2.1-T2V-1.3B-Diffusers.
    """
    parts = _wan(image=False)
    width = 4096
    encoder = UMT5Config(
        vocab_size=96,
        d_model=width,
        d_kv=8,
        d_ff=37,
        num_layers=1,
        num_heads=4,
        pad_token_id=0,
        eos_token_id=1,
    )
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        parts["text_encoder"] = UMT5EncoderModel(encoder)
        parts["transformer"] = diffusers.WanTransformer3DModel(
            num_attention_heads=12,
            attention_head_dim=128,
            in_channels=16,
            out_channels=16,
            text_dim=width,
            freq_dim=256,
            ffn_dim=8960,
            num_layers=30,
            cross_attn_norm=True,
            rope_max_seq_len=1024,
        )
    finally:
        torch.set_default_dtype(default)
    parts["vae"] = diffusers.AutoencoderKLWan()
    return parts


PARTS: dict[str, Callable[[], dict[str, Any]]] = {
    "LTXPipeline": _ltx,
    "LTXImageToVideoPipeline": _ltx,
    "WanPipeline": lambda: _wan(image=False),
    "WanImageToVideoPipeline": lambda: _wan(image=True),
}


def write(folder: Path, pipeline: str, seed: int = 0, real: bool = False) -> None:
    """Writes the folder of a pipeline. With real it is a WanPipeline of the real size."""
    torch.manual_seed(seed)
    parts = wan_1_3b() if real else PARTS[pipeline]()
    getattr(diffusers, pipeline)(**parts).save_pretrained(folder, safe_serialization=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="reelay_diffusers.tiny", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pipeline", choices=sorted(PARTS), default="LTXPipeline")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    write(given.folder, given.pipeline, given.seed)
    print(f"{given.folder}: a tiny {given.pipeline} with random weights")
