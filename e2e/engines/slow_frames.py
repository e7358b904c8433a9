"""A ComfyUI node that needs no model: it sleeps, reports progress and previews, and makes real frames."""

import time
from pathlib import Path

import comfy.model_management
import comfy.utils
import folder_paths
import torch
from comfy_execution.utils import get_executing_context
from PIL import Image


class SlowFrames:
    RETURN_TYPES = ("IMAGE",)
    FUNCTION = "run"
    CATEGORY = "test"

    @classmethod
    def INPUT_TYPES(cls):
        return {
            "required": {
                "frames": ("INT", {"default": 16, "min": 1, "max": 400}),
                "step_seconds": ("FLOAT", {"default": 0.2, "min": 0.0, "max": 60.0}),
                "steps": ("INT", {"default": 10, "min": 1, "max": 1000}),
                "seed": ("INT", {"default": 0, "min": 0, "max": 2**63 - 1}),
                "fail_at": ("INT", {"default": -1, "min": -1, "max": 1000, "tooltip": "The step that fails"}),
            },
            "optional": {
                "prompt": ("STRING", {"default": "", "multiline": True}),
                "negative_prompt": ("STRING", {"default": "", "multiline": True}),
                "width": ("INT", {"default": 64, "min": 16, "max": 4096, "step": 2}),
                "height": ("INT", {"default": 36, "min": 16, "max": 4096, "step": 2}),
                "model": (["small.safetensors", "large.safetensors"],),
                "failure": (["error", "out of memory"],),
                "image": ("IMAGE",),
            },
        }

    def run(
        self,
        frames,
        step_seconds,
        steps,
        seed,
        fail_at,
        prompt="",
        negative_prompt="",
        width=64,
        height=36,
        model="small.safetensors",
        failure="error",
        image=None,
    ):
        note_run()
        bar = comfy.utils.ProgressBar(steps)
        for step in range(steps):
            comfy.model_management.throw_exception_if_processing_interrupted()
            if step == fail_at and failure == "out of memory":
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB (pretended)")
            if step == fail_at:
                raise ValueError(f"the node failed at step {step}, as told")
            time.sleep(step_seconds)
            preview = Image.new("RGB", (64, 36), (step * 20 % 255, 90, seed % 255))
            bar.update_absolute(step + 1, steps, ("JPEG", preview, None))
        generator = torch.Generator().manual_seed(seed)
        return (torch.rand((frames, height, width, 3), generator=generator),)


def note_run():
    """Appends the prompt's id to runs.txt beside the outputs, for tests that count renders."""
    context = get_executing_context()
    folder = Path(folder_paths.get_output_directory())
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "runs.txt").open("a") as runs:
        runs.write(f"{context.prompt_id if context else ''}\n")


NODE_CLASS_MAPPINGS = {"SlowFrames": SlowFrames}
