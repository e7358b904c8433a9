"""What a job asks for, checked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reelay_runtime import InvalidInput, Job

from .picture import open_image
from .pipelines import Loaded

RESOLUTIONS = {"240p": 240, "360p": 360, "480p": 480, "540p": 540, "720p": 720, "1080p": 1080}
ASPECT_RATIOS = {"16:9": (16, 9), "9:16": (9, 16), "1:1": (1, 1)}
IMAGE_PARAMETER = "referenceImage"
PARAMETERS = {
    "durationSeconds", "fps", "frames", "resolution", "aspectRatio", "size", "steps",
    "guidanceScale", "negativePrompt", "seed", IMAGE_PARAMETER,
    "allowDark", "allowStill",  # for the agent's check of the video
}  # fmt: skip


@dataclass(frozen=True)
class Request:
    """The arguments of a pipeline's call, in its own terms."""

    prompt: str
    negative_prompt: str
    width: int
    height: int
    frames: int
    fps: int
    steps: int
    guidance_scale: float
    seed: int
    image: Path | None

    @property
    def guided(self) -> bool:
        return self.guidance_scale > 1

    def arguments(self, loaded: Loaded) -> dict[str, Any]:
        """Returns the arguments of the pipeline's call, but for the embeddings."""
        arguments: dict[str, Any] = {
            "width": self.width,
            "height": self.height,
            "num_frames": self.frames,
            "num_inference_steps": self.steps,
            "guidance_scale": self.guidance_scale,
            "output_type": "np",
            "return_dict": False,
            **loaded.settings.call,
        }
        if loaded.kind.tells_fps:
            arguments["frame_rate"] = self.fps
        if self.image:
            arguments["image"] = open_image(self.image, self.width, self.height)
        return arguments


def parse(job: Job, loaded: Loaded) -> Request:
    """Checks a job's parameters. Sizes and lengths are rounded to what the pipeline can make."""
    if unknown := sorted(set(job.params) - PARAMETERS):
        raise InvalidInput(f"{unknown[0][:80]!r} is not a parameter of this model.")
    defaults = loaded.settings.defaults
    fps = job.param("fps", int(defaults.get("fps", loaded.kind.fps)), low=1, high=60)
    seconds = job.param("durationSeconds", float(defaults.get("durationSeconds", 4.0)), low=0.1, high=60)
    frames = job.param("frames", 0, low=0, high=3600) or round(seconds * fps)
    groups = max(round((frames - 1) / loaded.temporal), 0)
    width, height = _size(job, loaded)
    if not job.prompt.strip():
        raise InvalidInput("The prompt is empty; say what the video shows.")
    return Request(
        prompt=job.prompt,
        negative_prompt=job.param("negativePrompt", str(defaults.get("negativePrompt", ""))),
        width=width,
        height=height,
        frames=groups * loaded.temporal + 1,
        fps=fps,
        steps=job.param("steps", int(defaults.get("steps", loaded.kind.steps)), low=1, high=1000),
        guidance_scale=job.param(
            "guidanceScale",
            float(defaults.get("guidanceScale", loaded.kind.guidance_scale)),
            low=0,
            high=100,
        ),
        seed=job.param("seed", 0, low=0, high=1 << 53),
        image=_image(job, loaded),
    )


def _size(job: Job, loaded: Loaded) -> tuple[int, int]:
    size = job.param("size", "")
    if size:
        width, _, height = size.partition("x")
        if not (width.isdecimal() and height.isdecimal() and len(size) < 12):
            raise InvalidInput(f"size is {size[:40]!r}; it must be like 832x480.")
        wanted = int(width), int(height)
    else:
        resolution = job.param(
            "resolution", str(loaded.settings.defaults.get("resolution", "480p")), among=list(RESOLUTIONS)
        )
        across, down = ASPECT_RATIOS[job.param("aspectRatio", "16:9", among=list(ASPECT_RATIOS))]
        short = RESOLUTIONS[resolution]
        wanted = short * across // min(across, down), short * down // min(across, down)
    multiple = loaded.multiple
    if not all(multiple <= side <= 4096 for side in wanted):
        raise InvalidInput(
            f"The size is {wanted[0]}x{wanted[1]}; a side must have {multiple} to 4096 pixels."
        )
    return wanted[0] // multiple * multiple, wanted[1] // multiple * multiple


def _image(job: Job, loaded: Loaded) -> Path | None:
    image = job.inputs.get(IMAGE_PARAMETER)
    if image and not loaded.kind.image:
        raise InvalidInput(f"This model takes no image; leave {IMAGE_PARAMETER} out.")
    if loaded.kind.image and not image:
        raise InvalidInput(f"This model begins with an image; give one as {IMAGE_PARAMETER}.")
    return image
