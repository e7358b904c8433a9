"""A Cog predictor without a model, for `python -m cog.server.http`."""

import os
import sys
import tempfile
import time
from pathlib import Path as Folder

from cog import BasePredictor, Input, Path

sys.path.insert(0, str(Folder(__file__).resolve().parent))
from film import film


class Predictor(BasePredictor):
    def setup(self) -> None:
        time.sleep(float(os.environ.get("SETUP_SECONDS", "0.5")))
        if os.environ.get("SETUP_FAILS"):
            raise RuntimeError("weights are missing (pretended)")

    def predict(
        self,
        prompt: str = Input(description="boom fails, dead ends the worker process"),
        seconds: float = Input(default=1, ge=0, le=600),
        seed: int = Input(default=0),
        image: Path = Input(default=None),
    ) -> Path:
        steps = max(1, round(seconds * 10))
        for step in range(steps):
            print(f"step {step + 1}/{steps}", flush=True)
            time.sleep(seconds / steps)
        if prompt == "boom":
            raise ValueError("boom happened")
        if prompt == "memory":
            raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB (pretended)")
        if prompt == "dead":
            os._exit(9)
        path = Folder(tempfile.mkdtemp(), "out.mp4")
        path.write_bytes(film(f"{prompt} {seed}"))
        return Path(path)
