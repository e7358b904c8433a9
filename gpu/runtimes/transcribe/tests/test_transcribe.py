from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.speech import speak


def transcribe(folder: Path, file: Path, **params: Any) -> tuple[int, list[dict[str, Any]], dict[str, Any] | None]:
    """Runs the program, and returns its status, its reports and its output."""
    job, output = folder / "job.json", folder / "output.json"
    job.write_text(json.dumps({"params": params, "inputs": {"file": str(file)}, "outputs": {"output": str(output)}}))
    run = subprocess.run([sys.executable, "-m", "reelay_transcribe", str(job)], capture_output=True, check=False)
    reports = [json.loads(line) for line in run.stdout.splitlines()]
    return run.returncode, reports, json.loads(output.read_bytes()) if output.exists() else None


@pytest.fixture(scope="module")
def speech(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("speech") / "input-0"
    speak("Good morning. Please open the window and bring me a glass of water.", path)
    return path


def test_recognizes_speech(tmp_path: Path, speech: Path) -> None:
    status, reports, output = transcribe(tmp_path, speech, words=True)

    assert status == 0
    assert output is not None
    text = output["text"].lower()
    assert [w for w in ("morning", "open", "window", "glass", "water") if w not in text] == []
    assert output["language"] == "en"
    assert 2 < output["durationSeconds"] < 10
    first = output["segments"][0]
    assert 0 <= first["start"] < first["end"] <= output["durationSeconds"] + 1
    assert len(first["words"]) > 3
    assert reports[0]["phase"] == "LOADING_MODEL"
    assert reports[-1]["percent"] > 50


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"#EXTM3U\nfile:///etc/passwd\n", "not a video or sound"),
        (b"RIFF\x00\x00\x00\x00WAVE", "no sound"),
        (b"", "not a video or sound"),
    ],
)
def test_refuses_other_files(tmp_path: Path, content: bytes, says: str) -> None:
    file = tmp_path / "input-0"
    file.write_bytes(content)

    status, reports, output = transcribe(tmp_path, file)

    assert (status, output) == (2, None)
    assert reports[-1]["error"]["class"] == "INVALID_INPUT"
    assert says in reports[-1]["error"]["message"]


def test_refuses_a_language_that_the_model_does_not_have(tmp_path: Path, speech: Path) -> None:
    status, reports, _ = transcribe(tmp_path, speech, language="fr")

    assert status == 2
    assert "English only" in reports[-1]["error"]["message"]
