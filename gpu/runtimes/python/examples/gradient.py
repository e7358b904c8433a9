"""A whole model: each of its 60 steps adds a light, and the lights move through the video.

Python's standard library and ffmpeg are all that it needs.
"""

import json
import random
import subprocess
from collections.abc import Generator
from pathlib import Path

from reelay_runtime import ENCODING, InvalidInput, Job, Model, Result, Step, serve

WIDTH, HEIGHT, FPS, STEPS = 160, 90, 24, 60


class Gradient(Model):
    runtime = "gradient 1"
    models = {"gradient": "1"}
    preview_suffix = ".png"

    def begin(self, job: Job) -> None:
        self.seconds = job.param("durationSeconds", 2.0, low=0.5, high=10)
        if not job.prompt:
            raise InvalidInput("The prompt is empty; describe the light in a few words.")
        self.random = random.Random(f"{job.prompt} {job.param('seed', 0, low=0)}")
        self.step = 0
        self.lights: list[list[int]] = []

    def steps(self, job: Job) -> Generator[Step, None, Result]:
        while self.step < STEPS:
            light = [self.random.randrange(WIDTH), self.random.randrange(HEIGHT), self.random.randrange(256)]
            self.lights.append(light)
            self.step += 1
            yield Step(self.step, STEPS, f"placing light {self.step} of {STEPS}")
        video = job.workdir / "video.mp4"
        frames = round(self.seconds * FPS)
        encoder = ffmpeg(["-r", str(FPS)], ["-c:v", "libx264", "-pix_fmt", "yuv420p", str(video)])
        try:
            assert encoder.stdin
            for frame in range(frames):
                encoder.stdin.write(self.paint(frame))
                yield Step(STEPS, STEPS, "encoding", ENCODING, frame + 1, frames)
            encoder.stdin.close()
            if encoder.wait():
                raise RuntimeError("ffmpeg failed; its error is in the log")
        finally:
            encoder.kill()
        return Result(video=video, output={"frames": frames})

    def save(self, path: Path) -> None:
        path.write_text(json.dumps([self.step, self.lights, self.random.getstate()]))

    def restore(self, path: Path) -> None:
        self.step, self.lights, (version, state, gauss) = json.loads(path.read_text())
        self.random.setstate((version, tuple(state), gauss))

    def preview(self, path: Path) -> None:
        ffmpeg([], ["-frames:v", "1", str(path)]).communicate(self.paint(0))

    def paint(self, frame: int) -> bytes:
        columns, rows = [0] * WIDTH, [0] * HEIGHT
        for x, y, brightness in self.lights:
            columns[(x + frame) % WIDTH] += brightness
            rows[(y + frame // 2) % HEIGHT] += brightness
        return bytes((column + row) % 256 for row in rows for column in columns)


def ffmpeg(source: list[str], target: list[str]) -> "subprocess.Popen[bytes]":
    frames = ["-f", "rawvideo", "-pix_fmt", "gray", "-s", f"{WIDTH}x{HEIGHT}", *source, "-i", "pipe:0"]
    quiet = ["ffmpeg", "-loglevel", "error", "-y", "-fflags", "+bitexact", "-threads", "1"]
    return subprocess.Popen(quiet + frames + ["-flags", "+bitexact", *target], stdin=subprocess.PIPE)


if __name__ == "__main__":
    serve(Gradient())
