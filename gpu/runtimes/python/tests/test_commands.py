"""Every command of the protocol, and what comes back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Launch, Runtime, names


def last_step(runtime: Runtime) -> int:
    """Waits until the runtime has reported a step, and returns it."""
    return int(runtime.until("progress", where=lambda p: p["phase"] == "RENDERING")[-1][1]["step"])


def test_announces_its_models(tmp_path: Path, launch: Launch) -> None:
    launch()
    program = Path(__file__).parent / "counter.py"
    runtime = Runtime(program, tmp_path / "log", {})
    assert runtime.next() == (
        "ready",
        {"protocol": 2, "runtime": "counter 1", "models": [{"name": "counter", "version": "test"}, "other"]},
    )
    runtime.close()


def test_loads(launch: Launch) -> None:
    runtime = launch()
    runtime.send("load", model="counter", version=3, settings={"weights": "/models"})
    loading = {"percent": 50, "phase": "LOADING_MODEL", "message": "half of it"}
    assert runtime.next() == ("progress", loading)
    assert runtime.next() == ("loaded", {"model": "counter"})

    # The same weights again: nothing to do, although the entry was edited.
    runtime.send("load", model="counter", version=4, settings={"weights": "/models"})
    assert runtime.next() == ("loaded", {"model": "counter"})

    runtime.send("load", model="counter", version=5, settings={"fetch": 1.5})
    runtime.expect("progress")
    assert runtime.next() == ("loaded", {"model": "counter", "fetchSeconds": 1.5})

    runtime.send("load", model="counter", version=6, settings={"fail": True})
    assert runtime.expect("error")["message"] == "the weights are not there"

    runtime.send("load", model="nothing")
    assert "no model 'nothing'" in runtime.expect("error")["message"]


def test_renders(launch: Launch, workdir: Path) -> None:
    runtime = launch()
    runtime.start(workdir)
    messages = runtime.until("result")
    result = messages[-1][1]
    assert result["video"] == str(workdir / "video.mp4")
    assert Path(result["video"]).read_bytes().hex() == result["output"]["chain"]
    progress = [body for name, body in messages if name == "progress"]
    assert [p["percent"] for p in progress if p["phase"] == "RENDERING"][-1] == 90
    percents = [p["percent"] for p in progress if p["phase"] != "LOADING_MODEL"]
    assert percents == sorted(percents)

    # The next job finds the model loaded.
    runtime.start(workdir, job="job_2")
    assert "LOADING_MODEL" not in [body.get("phase") for _, body in runtime.until("result")]


def test_reports_when_it_will_end(launch: Launch, workdir: Path) -> None:
    runtime = launch(COUNTER_DELAY="0.06")
    runtime.start(workdir)
    messages = runtime.until("result")
    assert any(body.get("etaSeconds", 0) > 0 for _, body in messages)
    metrics = [body for name, body in messages if name == "metrics"]
    assert metrics and metrics[0]["stepSeconds"] >= 0.05
    assert len(metrics) == 1, "at most one in 5 seconds"


def test_saves_on_request(launch: Launch, workdir: Path) -> None:
    runtime = launch(COUNTER_DELAY="0.01")
    runtime.start(workdir, params={"steps": 100000})
    step = last_step(runtime)
    paths = set()
    for _ in range(3):
        runtime.send("checkpoint")
        saved = runtime.expect("checkpoint")
        assert saved["step"] >= step
        assert Path(saved["path"]).parent == workdir
        assert saved["info"] == {"format": "reelay-runtime", "version": 1, "runtime": "counter 1"}
        paths.add(saved["path"])
        step = saved["step"]
    assert len(paths) == 3
    assert {str(path) for path in workdir.iterdir()} == paths
    runtime.send("cancel")
    runtime.expect("cancelled")


def test_saves_every_few_steps(launch: Launch, workdir: Path) -> None:
    runtime = launch()
    runtime.start(workdir, params={"every": 3})
    saved = [body["step"] for name, body in runtime.until("result") if name == "checkpoint"]
    assert saved == [3, 6]


def test_continues_when_it_cannot_save(launch: Launch, workdir: Path) -> None:
    runtime = launch()
    runtime.start(workdir, params={"every": 8, "saves": "disk full"})
    messages = runtime.until("result")
    assert "path" not in next(body for name, body in messages if name == "checkpoint")
    assert "No space left on device" in next(body for name, body in messages if name == "log")["message"]
    assert [path.name for path in workdir.iterdir()] == ["video.mp4"]


def test_fails_rather_than_save_a_broken_state(launch: Launch, workdir: Path) -> None:
    runtime = launch()
    runtime.start(workdir, params={"every": 2, "saves": "nan"})
    messages = runtime.until("error")
    assert messages[-1][1]["class"] == "MODEL_CRASH"
    assert "checkpoint" not in names(messages)
    assert not list(workdir.iterdir())


def test_cancels_between_steps(launch: Launch, workdir: Path) -> None:
    runtime = launch(COUNTER_DELAY="0.01")
    runtime.start(workdir, params={"steps": 100000})
    last_step(runtime)
    runtime.send("cancel")
    runtime.expect("cancelled")
    assert "cleaned up" in runtime.errors()
    for late in ("cancel", "checkpoint"):  # there is no job: ignored
        runtime.send(late)
    runtime.start(workdir, job="job_2")
    runtime.expect("result")


def test_cancels_within_a_step(launch: Launch, workdir: Path) -> None:
    runtime = launch()
    runtime.start(workdir, params={"misbehave": "wait", "misbehaveAt": 3})
    runtime.send("cancel")
    runtime.expect("cancelled")


def test_saves_within_a_step(launch: Launch, workdir: Path) -> None:
    runtime = launch()
    runtime.start(workdir, params={"misbehave": "attend", "misbehaveAt": 5})
    runtime.expect("log")
    runtime.send("checkpoint")
    assert runtime.expect("checkpoint")["step"] == 4
    runtime.send("cancel")
    runtime.expect("cancelled")


def test_drafts(launch: Launch, workdir: Path) -> None:
    runtime = launch()
    runtime.start(workdir, draftSteps=3)
    messages = runtime.until("result")
    saved = next(body for name, body in messages if name == "checkpoint")
    result = messages[-1][1]
    assert saved["step"] == 3
    assert Path(result["preview"]).read_text() == "preview of step 3"
    assert set(result) == {"preview"}

    # The final render resumes from the draft. A longer draft does so, too, and a shorter
    # one has nothing left to do.
    given = [{"path": saved["path"], "step": 3}]
    for draft, step in ((2, 3), (5, 5), (100, 8)):
        runtime.start(workdir, draftSteps=draft, checkpoints=given)
        messages = runtime.until("result")
        assert next(body for name, body in messages if name == "resumed")["step"] == 3
        assert next(body for name, body in messages if name == "checkpoint")["step"] == step
        assert Path(messages[-1][1]["preview"]).read_text() == f"preview of step {step}"
    runtime.start(workdir)
    undisturbed = runtime.expect("result")["output"]
    runtime.start(workdir, checkpoints=given)
    assert runtime.expect("result")["output"] == undisturbed


def test_makes_a_preview_when_one_is_due(launch: Launch, workdir: Path) -> None:
    runtime = launch(COUNTER_DELAY="0.4")
    runtime.start(workdir, params={"steps": 9})
    messages = runtime.until("result")
    previews = [body for name, body in messages if name == "preview"]
    assert len(previews) == 1, "one in 3 seconds"
    assert Path(previews[0]["path"]).read_text() == f"preview of step {previews[0]['step']}"


def test_passes_a_handle_on(launch: Launch, workdir: Path) -> None:
    runtime = launch()
    runtime.start(workdir, params={"misbehave": "talk", "misbehaveAt": 1}, handle="-again")
    messages = runtime.until("result")
    handles = [body["value"] for name, body in messages if name == "handle"]
    assert handles == ["external-7-again"], "what is no handle is refused"
    log = next(body for name, body in messages if name == "log")
    assert len(log["message"].encode()) <= 64 << 10


@pytest.mark.parametrize("way", ["shutdown", "end of input"])
def test_exits(launch: Launch, workdir: Path, way: str) -> None:
    runtime = launch(COUNTER_DELAY="0.01")
    runtime.start(workdir, params={"steps": 100000})
    last_step(runtime)
    if way == "shutdown":
        runtime.send("shutdown")
    else:
        runtime.send_line(b'{"start":{"job"')  # the agent died while it wrote
        runtime.stdin.close()
    runtime.expect("cancelled")
    assert runtime.next_line() is None
    assert runtime.wait() == 0


def test_exits_in_the_middle_of_a_long_step(launch: Launch, workdir: Path) -> None:
    runtime = launch()
    runtime.start(workdir, params={"misbehave": "hang", "misbehaveAt": 2})
    runtime.expect("log")
    runtime.stdin.close()
    assert runtime.wait() == 1


def test_exits_when_nobody_reads(launch: Launch, workdir: Path) -> None:
    runtime = launch(COUNTER_DELAY="0.01")
    runtime.start(workdir, params={"steps": 100000})
    last_step(runtime)
    runtime.stdout.close()
    assert runtime.wait() == 0


def test_every_line_is_one_message(launch: Launch, workdir: Path) -> None:
    runtime = launch()
    runtime.start(workdir, params={"misbehave": "print", "misbehaveAt": 4})
    messages = runtime.until("result")
    assert set(names(messages)) <= {"progress", "result", "metrics"}
    runtime.send("shutdown")
    assert runtime.wait() == 0
    for text in (
        "a library prints this when it is imported",
        "Python prints",
        "C prints at once",
        "C prints through its buffer",
        "a program prints",
    ):
        assert text in runtime.errors()


def test_other_ranks_are_silent(tmp_path: Path) -> None:
    runtime = Runtime(Path(__file__).parent / "counter.py", tmp_path / "log", {"RANK": "1"})
    assert runtime.next_line() is None
    assert "RANK is not 0" in runtime.errors()
    runtime.close()


@pytest.mark.parametrize(
    "line",
    [
        b"nonsense\n",
        b"[]\n",
        b"{}\n",
        b'{"load":1}\n',
        b'{"load":{"model":7}}\n',
        b'{"load":{"model":"a"},"start":{}}\n',
        b'{"start":{"model":"counter"}}\n',
        b'{"start":{"job":"a","model":"counter","workdir":"/","checkpoints":[7]}}\n',
        b"\xff\xfe\n",
        b"[" * 100_000 + b"\n",
        json.dumps({"load": {"model": "x" * (1 << 20)}}).encode() + b"\n",
    ],
    ids=range(11),
)
def test_exits_at_a_line_that_is_no_command(launch: Launch, line: bytes) -> None:
    runtime = launch()
    runtime.send_line(line)
    assert runtime.next_line() is None
    assert runtime.wait() == 1
    assert "reelay-runtime: ProtocolError" in runtime.errors()


def test_exits_at_a_second_job(launch: Launch, workdir: Path) -> None:
    runtime = launch(COUNTER_DELAY="0.01")
    runtime.start(workdir, params={"steps": 100000})
    runtime.start(workdir)
    assert runtime.wait() == 1
    assert "while a load or a job is running" in runtime.errors()


def test_ignores_what_it_does_not_know(launch: Launch, workdir: Path) -> None:
    runtime = launch()
    runtime.send("dance")
    assert "'dance'" in runtime.expect("log")["message"]
    runtime.start(workdir, tomorrow={"a": 1}, params=None, inputs=None)
    runtime.expect("result")


def test_fails_without_a_workdir(launch: Launch, tmp_path: Path) -> None:
    runtime = launch()
    runtime.start(tmp_path / "nowhere")
    assert "nowhere" in runtime.expect("error")["message"]
