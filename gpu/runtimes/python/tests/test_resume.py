"""Resuming: a job that was interrupted makes the same video as one that was not."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import Launch, Runtime, names

from reelay_runtime import CheckpointRejected, checkpoint

GRADIENT = Path(__file__).parent.parent / "examples" / "gradient.py"


def undisturbed(runtime: Runtime, workdir: Path, **fields: Any) -> str:
    runtime.start(workdir, **fields)
    return str(runtime.expect("result")["output"]["chain"])


def saved_at(runtime: Runtime, workdir: Path, step: int, **fields: Any) -> Path:
    """Returns the checkpoint of a step of a job."""
    runtime.start(workdir, draftSteps=step, **fields)
    path = Path(runtime.expect("checkpoint")["path"])
    runtime.expect("result")
    return path


def test_after_kill_at_every_step(launch: Launch, workdir: Path) -> None:
    expected = undisturbed(launch(), workdir)
    given: list[dict[str, Any]] = []
    for step in range(1, 9):
        runtime = launch()
        runtime.start(workdir, params={"every": 1}, checkpoints=given)
        saved = runtime.expect("checkpoint")
        runtime.process.kill()
        assert saved["step"] == step
        given = [{"path": saved["path"], "step": step}, *given]
    runtime = launch()
    runtime.start(workdir, params={"every": 1}, checkpoints=given)
    assert runtime.expect("resumed") == {"path": given[0]["path"], "step": 8}
    assert runtime.expect("result")["output"]["chain"] == expected


def test_rejects_damaged_and_foreign_files(launch: Launch, workdir: Path, tmp_path: Path) -> None:
    runtime = launch()
    expected = undisturbed(runtime, workdir)
    good = saved_at(runtime, workdir, 5)
    content = good.read_bytes()
    damaged = {
        "cut": content[:-1],
        "short": content[:10],
        "empty": b"",
        "flipped": bytes([content[0] ^ 1]) + content[1:],
        "foreign": b"PK\x03\x04" * 100,
        "missing": None,
        "prompt": saved_at(runtime, workdir, 4, prompt="a lake").read_bytes(),
        "params": saved_at(runtime, workdir, 4, params={"steps": 9}).read_bytes(),
        "settings": saved_at(runtime, workdir, 4, settings={"lora": 1}).read_bytes(),
    }
    given = []
    for name, data in damaged.items():
        path = tmp_path / name
        if data is not None:
            path.write_bytes(data)
        given.append({"path": str(path), "step": 6})
    given.append({"path": str(good), "step": 5})
    runtime.start(workdir, checkpoints=given)
    messages = runtime.until("result")
    rejected = {
        Path(body["path"]).name: body["reason"] for name, body in messages if name == "checkpointRejected"
    }
    assert list(rejected) == list(damaged)
    assert rejected["flipped"] == "its checksum is wrong"
    assert "cut short" in rejected["cut"]
    assert "another video" in rejected["prompt"]
    assert ("resumed", {"path": str(good), "step": 5}) in messages
    assert messages[-1][1]["output"]["chain"] == expected


def test_starts_from_scratch_when_nothing_restores(launch: Launch, workdir: Path) -> None:
    runtime = launch()
    expected = undisturbed(runtime, workdir)
    saved = saved_at(runtime, workdir, 3)
    given = [{"path": str(saved), "step": 3}]
    runtime.start(workdir, checkpoints=given, determinism="strict")
    messages = runtime.until("result")
    assert ("checkpointRejected", {"path": str(saved), "reason": "strict"}) in messages
    assert "resumed" not in names(messages)
    assert messages[-1][1]["output"]["chain"] == expected
    steps = [body["step"] for name, body in messages if body.get("phase") == "RENDERING"]
    assert steps[0] == 1, "the rejected restore left nothing behind"
    assert not list(workdir.glob("*.restored"))


def test_passes_the_note_on(launch: Launch, workdir: Path) -> None:
    runtime = launch()
    saved = saved_at(runtime, workdir, 3, params={"note": True})
    runtime.start(workdir, checkpoints=[{"path": str(saved), "step": 3}], params={"note": True})
    assert runtime.expect("resumed")["note"] == "resumed with another clock"
    runtime.expect("result")


def test_an_input_is_part_of_the_identity(launch: Launch, workdir: Path) -> None:
    runtime = launch()
    picture = workdir / "input-0"
    picture.write_bytes(b"one")
    inputs = {"referenceImage": str(picture)}
    saved = saved_at(runtime, workdir, 3, inputs=inputs)
    given = [{"path": str(saved), "step": 3}]
    runtime.start(workdir, checkpoints=given, inputs=inputs)
    assert "resumed" in names(runtime.until("result"))
    picture.write_bytes(b"two")
    runtime.start(workdir, checkpoints=given, inputs=inputs)
    assert "resumed" not in names(runtime.until("result"))


def test_a_file_is_whole_or_absent(tmp_path: Path) -> None:
    path, content = tmp_path / "a.checkpoint", tmp_path / "content"

    def fails(unfinished: Path) -> None:
        unfinished.write_bytes(b"half")
        raise ValueError("in the middle")

    with pytest.raises(ValueError, match="in the middle"):
        checkpoint.write(path, {}, fails)
    assert not list(tmp_path.iterdir())

    checkpoint.write(path, {"step": 3}, lambda unfinished: unfinished.write_bytes(b"state" * 500_000))
    assert checkpoint.read(path, content) == {"step": 3}
    assert content.read_bytes() == b"state" * 500_000
    data = path.read_bytes()
    for cut in (1, 44, 45, 60, len(data) // 2, len(data)):
        path.write_bytes(data[:-cut])
        with pytest.raises(CheckpointRejected):
            checkpoint.read(path, content)


@pytest.mark.skipif(not shutil.which("ffmpeg"), reason="ffmpeg is not on the PATH")
def test_the_example(launch: Launch, workdir: Path) -> None:
    assert len(GRADIENT.read_text().splitlines()) <= 80
    runtime = launch(GRADIENT)
    runtime.start(workdir, model="gradient", params={"durationSeconds": 1})
    result = runtime.expect("result")
    expected = hashlib.sha256(Path(result["video"]).read_bytes()).hexdigest()
    probe = [
        "ffprobe",
        "-v",
        "error",
        "-count_frames",
        "-show_entries",
        "stream=nb_read_frames,width",
        "-of",
        "json",
    ]
    streams = json.loads(subprocess.check_output([*probe, result["video"]]))["streams"]
    assert streams == [{"width": 160, "nb_read_frames": "24"}]

    runtime.start(workdir, model="gradient", params={"durationSeconds": 1}, draftSteps=20)
    saved = runtime.expect("checkpoint")
    assert Path(runtime.expect("result")["preview"]).read_bytes().startswith(b"\x89PNG")
    runtime.process.kill()

    runtime = launch(GRADIENT, direct=True)
    given = [{"path": saved["path"], "step": 20}]
    runtime.start(workdir, model="gradient", params={"durationSeconds": 1}, checkpoints=given)
    messages = runtime.until("result")
    assert ("resumed", {"path": saved["path"], "step": 20}) in messages
    assert hashlib.sha256(Path(messages[-1][1]["video"]).read_bytes()).hexdigest() == expected

    runtime.start(workdir, model="gradient", prompt="")
    assert runtime.expect("error")["class"] == "INVALID_INPUT"
