"""The runtime: encode, denoise, decode, mux."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import diffusers
import numpy
import torch
from reelay_runtime import (
    ENCODING,
    CheckpointRejected,
    Entry,
    Failure,
    InvalidInput,
    Job,
    Model,
    ModelCrash,
    OutOfMemory,
    Result,
    Step,
)

from . import environment, pipelines, preview, request, settings, video
from .embeddings import EmbeddingCache
from .state import MAX_FRAMES_BYTES, Random, State
from .walk import Walk


class DiffusersModel(Model):
    """Serves the pipeline that the settings of the catalogue's entry name."""

    runtime = f"reelay-diffusers 1.0.0 (diffusers {diffusers.__version__}, torch {torch.__version__})"

    def __init__(self) -> None:
        self.loaded: pipelines.Loaded | None = None
        self.cache = EmbeddingCache()
        self.state = State()
        self.job: Job | None = None
        # The default, and what resuming bit by bit relies on.
        torch.backends.cudnn.benchmark = False
        torch.backends.cudnn.deterministic = True

    def load(self, model: Entry) -> float:
        wanted = settings.parse(model.settings)
        if self.loaded:
            pipelines.unload(self.loaded)
            self.loaded = None
            self.cache.clear()
        loaded = pipelines.load(wanted, model.progress)
        self._watch(loaded)
        self.loaded = loaded
        return loaded.fetch_seconds

    def _watch(self, loaded: pipelines.Loaded) -> None:
        """Lets a job answer the agent within a step, and report while it decodes.

        A step of a large model takes longer than a cancel or a preemption allows. Within it, and
        between the parts in which a VAE decodes a video, the state is that after the last step.
        """

        def attend(*_: Any) -> None:
            if self.job:
                self.job.attend()

        def decoding(*_: Any) -> None:
            if self.job and self.state.step == self.request.steps:
                self.job.report(self._denoised())

        for transformer in loaded.transformers:
            for name in ("blocks", "transformer_blocks"):
                for block in getattr(transformer, name, []):
                    block.register_forward_pre_hook(attend)
        loaded.pipe.vae.decoder.register_forward_pre_hook(decoding)

    def begin(self, job: Job) -> None:
        assert self.loaded
        self.job = job
        self.request = request.parse(job, self.loaded)
        self.state = State()
        self.loaded.new_scheduler()
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        torch.use_deterministic_algorithms(job.strict, warn_only=True)
        self.random = Random(self.loaded.device, self.request.seed)

    def identity(self, job: Job) -> Mapping[str, Any]:
        assert self.loaded
        given = self.loaded.settings
        return {
            "pipeline": type(self.loaded.pipe).__name__,
            "weights": self.loaded.digest,
            "adapters": [[adapter.sha256, adapter.weight] for adapter in given.adapters],
            # The rest of its configuration is in the weights.
            "scheduler": [type(self.loaded.scheduler).__name__, dict(given.scheduler_args)],
            "dtype": [str(part.dtype) for part in (self.loaded.transformers[0], self.loaded.pipe.vae)],
            "call": dict(given.call),
            # The kit adds the content of the image.
            "request": dataclasses.asdict(dataclasses.replace(self.request, image=None)),
        }

    def steps(self, job: Job) -> Generator[Step, None, Result]:
        total = self.request.steps
        try:
            if self.state.frames is None:
                if not self.state.embeddings:
                    self._encode()
                    yield Step(0, total, "the prompt is encoded", checkpoint=True)
                self.state.frames = self._denoise(job)
            frames = self.state.frames.numpy()
            small = frames.nbytes <= MAX_FRAMES_BYTES
            yield self._encoding(0, checkpoint=small)
            path = job.workdir / "video.mp4"
            for frame in video.write_mp4(path, frames, self.request.fps):
                yield self._encoding(frame)
            video.write_thumbnail(job.workdir / "thumbnail.webp", frames)
            video.write_spritesheet(job.workdir / "spritesheet.jpg", frames)
        finally:
            self.job = None
        return Result(
            video=path, thumbnail="thumbnail.webp", spritesheet="spritesheet.jpg", output=self._output()
        )

    def _encode(self) -> None:
        assert self.loaded
        wanted = self.request
        key = self.cache.key(self.loaded.digest, wanted.prompt, wanted.negative_prompt, wanted.guided)
        found = self.cache.get(key, self.loaded.device)
        if found is None:
            found = self.loaded.encode(wanted.prompt, wanted.negative_prompt, wanted.guided)
            self.cache.put(key, found)
        self.state.embeddings = found

    def _denoise(self, job: Job) -> torch.Tensor:
        """Does the remaining steps, decodes, and returns the frames as bytes."""
        assert self.loaded

        def report() -> None:
            self.state.check_finite()
            job.report(self._denoised(checkpoint=self.state.step == self.request.steps))

        walk = Walk(self.loaded, self.state, self.random, report)
        frames = walk.run(self.request.arguments(self.loaded))[0][0]
        if not numpy.isfinite(frames).all():
            raise ModelCrash("The decoded frames have values that are not finite. Use another vaeDtype.")
        return torch.from_numpy((frames * 255).round().clip(0, 255).astype(numpy.uint8))

    def _denoised(self, checkpoint: bool = False) -> Step:
        step, total = self.state.step, self.request.steps
        message = f"denoising, step {step} of {total}" if step < total else "decoding"
        return Step(step, total, message, checkpoint=checkpoint)

    def _encoding(self, frame: int, checkpoint: bool = False) -> Step:
        total, frames = self.request.steps, self.request.frames
        message = f"encoding, frame {frame} of {frames}"
        return Step(total, total, message, ENCODING, frame, frames, checkpoint)

    def _output(self) -> dict[str, Any]:
        wanted = self.request
        return {
            "width": wanted.width,
            "height": wanted.height,
            "fps": wanted.fps,
            "frames": wanted.frames,
            "durationSeconds": wanted.frames / wanted.fps,
            "seed": wanted.seed,
            "steps": wanted.steps,
            "guidanceScale": wanted.guidance_scale,
        }

    def save(self, path: Path) -> None:
        assert self.loaded
        self.state.save(path, environment.describe(self.loaded))

    def restore(self, path: Path) -> str | None:
        assert self.loaded
        assert self.job
        began = time.monotonic()
        state, saved = State.load(path, self.loaded.device)
        here = environment.describe(self.loaded)
        different = environment.differences(saved, here)
        if different and self.job.strict:
            raise CheckpointRejected(f"it was written on another machine, and the job is strict: {different}")
        if (saved["device"] == "CPU") != (here["device"] == "CPU"):
            raise CheckpointRejected("a GPU and a CPU do not share random generators")
        self.state = state
        self.job.log("info", f"restored step {state.step} in {time.monotonic() - began:.2f} s")
        return f"resumed with another fingerprint: {different}" if different else None

    def preview(self, path: Path) -> None:
        assert self.loaded
        if self.state.latents is None:
            raise InvalidInput("There is nothing to show before the first step.")
        preview.write(path, self.state.latents, self.request, self.loaded)

    def gpu_memory_bytes(self) -> int:
        return int(torch.cuda.max_memory_allocated()) if torch.cuda.is_available() else 0

    def translate(self, error: Exception) -> Failure | None:
        """Maps the errors of torch. Everything else is MODEL_CRASH with its own text."""
        if isinstance(error, torch.OutOfMemoryError) or "CUBLAS_STATUS_ALLOC_FAILED" in str(error):
            torch.cuda.empty_cache()
            return OutOfMemory(f"The GPU has not enough memory for this video. {str(error).splitlines()[0]}")
        if isinstance(error, torch.AcceleratorError) or "CUDA error" in str(error):
            return ModelCrash(f"The GPU failed: {str(error).splitlines()[0]}")
        return None
