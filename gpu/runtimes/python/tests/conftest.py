"""Drives a runtime as an agent does: a process, its pipes, and lines of JSON."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
COUNTER = Path(__file__).parent / "counter.py"
LIMIT_SECONDS = 30.0

Message = tuple[str, dict[str, Any]]


class Runtime:
    """A runtime process. A read fails the test after LIMIT_SECONDS."""

    def __init__(self, program: Path, log: Path, environment: dict[str, str], direct: bool = False) -> None:
        self.log = log
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, *([] if direct else ["-m", "reelay_runtime"]), str(program)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
            )
        assert self.process.stdin
        assert self.process.stdout
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        os.set_blocking(self.stdout.fileno(), False)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.stdout, selectors.EVENT_READ)
        self.unread = b""

    def send_line(self, line: bytes) -> None:
        self.stdin.write(line)
        self.stdin.flush()

    def send(self, name: str, **fields: Any) -> None:
        self.send_line(json.dumps({name: fields}).encode() + b"\n")

    def start(self, workdir: Path, **fields: Any) -> None:
        given = {"job": "job_1", "model": "counter", "prompt": "a sea", "workdir": str(workdir)}
        self.send("start", **(given | {"type": "video.generate"} | fields))

    def next_line(self) -> bytes | None:
        """Returns the next line, or None at the end of the output."""
        deadline = time.monotonic() + LIMIT_SECONDS
        while b"\n" not in self.unread:
            if not self.selector.select(max(deadline - time.monotonic(), 0)):
                pytest.fail(f"no line within {LIMIT_SECONDS} s; standard error: {self.errors()}")
            if not (data := os.read(self.stdout.fileno(), 1 << 20)):
                return None
            self.unread += data
        line, _, self.unread = self.unread.partition(b"\n")
        return line

    def next(self) -> Message:
        line = self.next_line()
        assert line is not None, self.errors()
        assert len(line) < 1 << 20
        envelope = json.loads(line)
        assert len(envelope) == 1
        ((name, body),) = envelope.items()
        assert isinstance(body, dict)
        return name, body

    def until(self, *names: str, where: Callable[[dict[str, Any]], bool] = lambda _: True) -> list[Message]:
        """Returns the messages up to the first one of these names for which where holds."""
        messages = []
        while True:
            messages.append(self.next())
            name, body = messages[-1]
            if name in names and where(body):
                return messages
            assert name not in ("result", "error", "cancelled"), messages[-1]

    def expect(self, name: str) -> dict[str, Any]:
        """Returns the next message of this name, and skips what comes before."""
        return self.until(name)[-1][1]

    def errors(self) -> str:
        return self.log.read_text(errors="replace")[-4000:]

    def wait(self) -> int:
        return self.process.wait(LIMIT_SECONDS)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.stdin.close() if not self.stdin.closed else None
        self.selector.close()
        self.stdout.close()


Launch = Callable[..., Runtime]


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Launch]:
    """Returns a function that starts a runtime, which has said ready."""
    started: list[Runtime] = []

    def start(program: Path = COUNTER, direct: bool = False, **environment: str) -> Runtime:
        runtime = Runtime(program, tmp_path / f"stderr-{len(started)}", environment, direct)
        started.append(runtime)
        assert runtime.expect("ready")["protocol"] == 2
        return runtime

    yield start
    for runtime in started:
        with contextlib.suppress(BrokenPipeError):
            runtime.close()


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    folder = tmp_path / "job"
    folder.mkdir()
    return folder


def names(messages: list[Message]) -> list[str]:
    return [name for name, _ in messages]
