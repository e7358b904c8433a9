"""Failures: their classes, and the limits of their texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import Launch

from reelay_runtime import Failure, InvalidInput, Job, OutOfMemory, RateLimited, failure
from reelay_runtime.entry import Entry
from reelay_runtime.serve import describe
from reelay_runtime.wire import clip, clip_start

CLASSES = {
    "TRANSIENT",
    "RATE_LIMITED",
    "PROVIDER_UNAVAILABLE",
    "ENDPOINT_FAILED",
    "TIMEOUT",
    "MODEL_CRASH",
    "OUT_OF_MEMORY",
    "CHECKPOINT_CORRUPT",
    "INVALID_INPUT",
    "CONTENT_POLICY",
    "UNAUTHORIZED",
}


def test_there_is_an_exception_for_each_class() -> None:
    kinds = [kind for kind in vars(failure).values() if isinstance(kind, type) and issubclass(kind, Failure)]
    assert {kind.failure_class for kind in kinds} == CLASSES


def test_describes_an_error() -> None:
    assert describe(OutOfMemory("full")) == {"class": "OUT_OF_MEMORY", "message": "full"}
    assert describe(RateLimited("slow", retry_after_seconds=7))["retryAfterSeconds"] == 7
    assert describe(InvalidInput(""))["message"] == "InvalidInput"
    long = describe(OutOfMemory("ä" * 5000, detail="b" + "ö" * 9000))
    assert len(long["message"].encode()) <= 2000
    assert len(long["detail"].encode()) <= 16 << 10
    assert long["detail"].endswith("ö")


@pytest.mark.parametrize(
    ("how", "failure_class", "message"),
    [
        ("invalid", "INVALID_INPUT", "The sea is too wide."),
        ("crash", "MODEL_CRASH", "ZeroDivisionError: division by zero"),
        ("out of memory", "OUT_OF_MEMORY", "The GPU is full."),
        ("exit", "MODEL_CRASH", "SystemExit: a library exits"),
        ("output", "MODEL_CRASH", "The job's output cannot be sent"),
    ],
)
def test_a_job_fails(launch: Launch, workdir: Path, how: str, failure_class: str, message: str) -> None:
    runtime = launch()
    runtime.start(workdir, params={"misbehave": how, "misbehaveAt": 2})
    error = runtime.expect("error")
    assert error["class"] == failure_class
    assert error["message"].startswith(message)
    assert len(error["message"].encode()) <= 2000
    assert ("Traceback" in error.get("detail", "")) == (how in ("crash", "exit"))

    runtime.start(workdir, job="job_2")
    runtime.expect("result")


def job(params: dict[str, Any]) -> Job:
    return Job({"job": "a", "workdir": "/", "params": params}, Entry("counter"))


def test_checks_parameters() -> None:
    assert job({}).param("steps", 30) == 30
    assert job({"steps": 4}).param("steps", 30, low=1) == 4
    assert job({"steps": 4.0}).param("steps", 30) == 4
    assert job({"seconds": 4}).param("seconds", 2.5) == 4.0
    assert job({"size": "b"}).param("size", "a", among=["a", "b"]) == "b"
    cases: list[tuple[dict[str, Any], Any]] = [
        ({"x": "4"}, 1),
        ({"x": 4.5}, 1),
        ({"x": True}, 1),
        ({"x": None}, "a"),
        ({"x": float("nan")}, 1.0),
        ({"x": 11}, 1),
        ({"x": -1}, 1),
    ]
    for params, default in cases:
        with pytest.raises(InvalidInput, match="x is"):
            job(params).param("x", default, low=0, high=10)  # type: ignore[type-var, unused-ignore]
    with pytest.raises(InvalidInput, match="one of: a, b"):
        job({"x": "c"}).param("x", "a", among=["a", "b"])


def test_clips_texts() -> None:
    assert clip("short") == "short"
    assert clip("ä" * 1001) == "ä" * 998 + "…"
    assert len(clip("\U0001f3ac" * 900).encode()) <= 2000
    assert clip_start("abc", 2) == "bc"
    assert clip("\ud800") == "?"
