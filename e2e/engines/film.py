"""Makes a real MP4 of a test picture for the servers that have no engine."""

import subprocess
import tempfile
from pathlib import Path


def film(comment):
    """Returns a film of one second that carries comment in its metadata: tests tell films apart by it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "film.mp4")
        picture = ["-f", "lavfi", "-i", "testsrc2=size=64x36:rate=8:duration=1"]
        codec = ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-metadata", f"comment={comment}"]
        subprocess.run(["ffmpeg", "-v", "error", *picture, *codec, path], check=True)
        return path.read_bytes()
