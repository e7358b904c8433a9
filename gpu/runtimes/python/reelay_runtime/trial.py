"""Tries a runtime: reelay-runtime test PROGRAM.py [ARGUMENT …]

It does what an agent does: it runs a job undisturbed, then kills the program after each step and
lets another process resume from the checkpoint of that step, and compares the files byte by byte.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from .render import SAVE_AT
from .wire import MAX_LINE, decode, encode

FILES = ("video", "thumbnail", "spritesheet")  # previews may differ: they depend on the clock
CANCEL_SECONDS = 10.0  # the agent kills a program that takes longer to end a cancelled job


class Broken(Exception):
    """The program broke a rule of the protocol, or failed."""


@dataclass(frozen=True)
class Made:
    """What a job made: the SHA-256 of each file, and its output."""

    files: Mapping[str, str]
    output: str

    def differs(self, other: Made) -> str:
        """Returns in what two jobs differ, or an empty text."""
        names = sorted({*self.files, *other.files})
        parts = [name for name in names if self.files.get(name) != other.files.get(name)]
        if self.output != other.output:
            parts.append("output")
        return " and ".join(parts)


@dataclass
class Trial:
    """What to try: the program, and the job that it is given."""

    command: Sequence[str]
    folder: Path
    model: str
    settings: Mapping[str, Any]
    prompt: str
    params: Mapping[str, Any]
    inputs: Mapping[str, str]
    timeout: float
    problems: list[str] = field(default_factory=list)
    spoilt: list[int] = field(default_factory=list)  # the steps after which a resumed job made other bytes
    runs: int = 0

    def workdir(self) -> Path:
        self.runs += 1
        path = self.folder / f"run-{self.runs:03d}"
        path.mkdir()
        return path


class Process:
    """The program, driven as an agent does."""

    def __init__(self, trial: Trial, save_at: int = 0) -> None:
        self.trial = trial
        self.workdir = trial.workdir()
        self.log = (self.workdir / "stderr.log").open("wb")
        self.process = subprocess.Popen(
            trial.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            env=os.environ | {SAVE_AT: str(save_at)},
        )
        self.messages: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        assert self.process.stdout
        threading.Thread(target=self._read, args=(self.process.stdout,), daemon=True).start()

    def _read(self, stdout: IO[bytes]) -> None:
        while line := stdout.readline(MAX_LINE + 1):
            self.messages.put(line)
        self.messages.put(None)

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.log.close()

    def send(self, name: str, **body: Any) -> None:
        assert self.process.stdin
        try:
            self.process.stdin.write(encode(name, body))
            self.process.stdin.flush()
        except OSError as error:
            raise Broken(f"The program does not read its commands any more.{self.errors()}") from error

    def next(self) -> tuple[str, dict[str, Any]]:
        try:
            line = self.messages.get(timeout=self.trial.timeout)
        except queue.Empty:
            raise Broken(
                f"The program said nothing for {self.trial.timeout:.0f} s. Yield after each step, or"
                f" give a longer --timeout." + self.errors()
            ) from None
        if line is None:
            raise Broken(f"The program ended with the exit status {self.process.wait()}.{self.errors()}")
        if len(line) > MAX_LINE or not line.endswith(b"\n"):
            raise Broken(f"A message is longer than {MAX_LINE} bytes, or has no end.")
        try:
            return decode(line)
        except Exception as error:
            raise Broken(
                f"Standard output has a line that is no message: {line[:100]!r}. Start the program with"
                " python3 -m reelay_runtime, or call claim_stdio before the imports."
            ) from error

    def until(self, *names: str) -> tuple[str, dict[str, Any]]:
        """Returns the next message with one of these names. An error of the program raises Broken."""
        while True:
            name, body = self.next()
            if name in names:
                return name, body
            if name == "error":
                detail = "\n" + str(body["detail"]) if body.get("detail") else ""
                raise Broken(f"The job failed as {body.get('class')}: {body.get('message')}{detail}")

    def begin(self, **more: Any) -> None:
        """Loads the model and starts the job."""
        ready = self.until("ready")[1]
        names = [m["name"] if isinstance(m, dict) else m for m in ready.get("models", [])]
        model = self.trial.model or (names[0] if names else "model")
        if names and model not in names:
            raise Broken(f"The program does not serve {model!r}. It serves: {', '.join(names)}.")
        entry = {"model": model, "settings": dict(self.trial.settings)}
        self.send("load", **entry)
        self.until("loaded")
        self.send(
            "start",
            **entry,
            job="job_trial",
            type="video.generate",
            params=dict(self.trial.params),
            prompt=self.trial.prompt,
            workdir=str(self.workdir),
            inputs=dict(self.trial.inputs),
            determinism="strict",
            **more,
        )

    def errors(self) -> str:
        """Returns the end of the program's standard error."""
        self.log.flush()
        text = (self.workdir / "stderr.log").read_text(errors="replace")[-2000:].strip()
        return f" Its standard error:\n{text}" if text else ""

    def made(self, result: Mapping[str, Any]) -> Made:
        files = {}
        for name in FILES:
            if name not in result:
                continue
            path = Path(str(result[name]))
            if not path.is_file():
                raise Broken(f"The result names a {name} that is no file: {path}")
            with path.open("rb") as file:
                files[name] = hashlib.file_digest(file, "sha256").hexdigest()
        if not files and "output" not in result:
            raise Broken(
                "The job made neither a video nor an output: return Result(video=…) at the end of steps."
            )
        return Made(files, json.dumps(result.get("output"), sort_keys=True))


def undisturbed(trial: Trial) -> tuple[Made, list[int], float]:
    """Runs the job, and returns what it made, its steps, and the seconds that it took."""
    with Process(trial) as process:
        begun = time.monotonic()
        process.begin()
        last = 0
        while True:
            name, body = process.until("progress", "result")
            if name == "result":
                return process.made(body), list(range(1, last + 1)), time.monotonic() - begun
            last = max(last, int(body.get("step", 0)))


def saved_at(trial: Trial, step: int) -> dict[str, Any] | None:
    """Runs the job until a checkpoint at or after a step is written, and kills the program then.

    It returns the checkpoint, or None if the job was over before.
    """
    with Process(trial, save_at=step) as process:
        process.begin()
        while True:
            name, body = process.until("checkpoint", "result")
            if name == "result":
                return None
            if int(body.get("step", 0)) >= step:
                return body


def resumed(trial: Trial, saved: Mapping[str, Any]) -> tuple[Made, int | None, str]:
    """Resumes the job in another process. It returns what that made, the step from which it resumed,
    or None, and why the checkpoint was rejected."""
    given = [{"path": saved["path"], "step": saved["step"]}]
    with Process(trial) as process:
        process.begin(checkpoints=given)
        step, reason = None, ""
        while True:
            name, body = process.until("resumed", "checkpointRejected", "result")
            if name == "resumed":
                step = int(body.get("step", 0))
            elif name == "checkpointRejected":
                reason = str(body.get("reason", ""))
            else:
                return process.made(body), step, reason


def cancelled(trial: Trial) -> str:
    """Cancels the job after its first step. It returns what is wrong, or an empty text."""
    with Process(trial) as process:
        process.begin()
        if process.until("progress", "result")[0] == "result":
            return ""
        process.send("cancel")
        asked = time.monotonic()
        process.until("cancelled", "result")
        took = time.monotonic() - asked
    if took > CANCEL_SECONDS:
        return f"A cancel took {took:.0f} s. Call job.check_cancelled() within steps of many seconds."
    return ""


def chosen(steps: Sequence[int], most: int) -> list[int]:
    """Returns at most so many of the steps, evenly spread, with the first and the last."""
    if len(steps) <= most:
        return list(steps)
    return sorted({steps[round(i * (len(steps) - 1) / (most - 1))] for i in range(most)})


def run(trial: Trial, most: int) -> int:
    """Tries the program and says what it found. It returns the exit status."""

    def say(line: str) -> None:
        print(line, flush=True)

    try:
        expected, steps, seconds = undisturbed(trial)
        say(f"undisturbed: {len(steps)} steps in {seconds:.1f} s")
        again, _, _ = undisturbed(trial)
        if parts := expected.differs(again):
            say(f"again: other bytes ({parts}), although nothing disturbed the job")
            trial.problems.append(
                f"Two undisturbed runs made other bytes ({parts}). Draw all that is random from the"
                f" job's seed, take no time of day,"
                " and ask the libraries for deterministic algorithms. Resumed runs cannot be"
                " compared before that."
            )
            return finish(trial, say)
        say("again: the same bytes")
        if not steps:
            trial.problems.append(
                "The job reported no step: yield Step(…) after each one, so that it can be saved."
            )
        for step in chosen(steps, most):
            try_step(trial, step, expected, say)
        if trial.spoilt:
            trial.problems.append(
                f"Resumed after {steps_in_words(trial.spoilt)}, the job made other bytes. save must"
                f" write all that the rest of the"
                " job depends on: the step, the state, and every random generator; restore must"
                " bring all of it back."
            )
        if problem := cancelled(trial):
            trial.problems.append(problem)
        else:
            say("cancel: the job ended at once")
    except Broken as error:
        trial.problems.append(str(error))
    return finish(trial, say)


def steps_in_words(steps: Sequence[int]) -> str:
    few = ", ".join(str(step) for step in steps[:5])
    return f"step {few}" + (f" and {len(steps) - 5} more" if len(steps) > 5 else "")


def try_step(trial: Trial, step: int, expected: Made, say: Any) -> None:
    saved = saved_at(trial, step)
    if saved is None:
        say(f"step {step}: no checkpoint was written: the program does not yield this step")
        return
    if "path" not in saved:
        say(f"step {step}: no checkpoint")
        problem = (
            "The model writes no checkpoint: define save and restore. Without them a"
            " lost job starts from scratch."
        )
        if problem not in trial.problems:
            trial.problems.append(problem)
        return
    made, at, reason = resumed(trial, saved)
    if at is None:
        say(f"step {step}: the checkpoint was rejected: {reason or 'without a reason'}")
        trial.problems.append(
            f"The checkpoint of step {saved['step']} did not restore: {reason or 'without a reason'}."
        )
    elif at != saved["step"]:
        say(f"step {step}: resumed at step {at}")
        trial.problems.append(
            f"The checkpoint of step {saved['step']} resumed at step {at}: restore must set the step, too."
        )
    elif parts := expected.differs(made):
        say(f"step {step}: killed, resumed, other bytes ({parts})")
        trial.spoilt.append(step)
    else:
        say(f"step {step}: killed, resumed, the same bytes")


def finish(trial: Trial, say: Any) -> int:
    if not trial.problems:
        say("OK: the program can be killed at any step.")
        return 0
    for problem in trial.problems:
        say(f"PROBLEM: {problem}")
    say(f"The files and logs of the runs are in {trial.folder}.")
    return 1


def given(text: str) -> tuple[str, str]:
    """Reads NAME=VALUE."""
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def value_of(text: str) -> Any:
    """Returns a parameter: JSON if it is JSON, else the text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def file_of(text: str) -> str:
    path = Path(text).resolve()
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"{text} is no file")
    return str(path)


def positive(text: str) -> float:
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} must be more than 0")
    return number


def main(arguments: Sequence[str]) -> int:
    """Runs `reelay-runtime test` with these arguments."""
    parser = argparse.ArgumentParser(
        prog="reelay-runtime test",
        description="Run a job, kill it after each step, resume it, and compare the bytes.",
    )
    parser.add_argument("program", type=file_of, help="the Python program that calls serve")
    parser.add_argument("arguments", nargs="*", help="its arguments, after --")
    parser.add_argument(
        "--model", default="", help="the model to render with (default: the first one that the program names)"
    )
    parser.add_argument(
        "--setting",
        type=given,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the catalogue entry",
    )
    parser.add_argument(
        "--param",
        type=given,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a parameter of the job",
    )
    parser.add_argument("--prompt", default="a lighthouse in the fog")
    parser.add_argument(
        "--input",
        type=given,
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="an input file of the job",
    )
    parser.add_argument(
        "--steps",
        type=int,
        default=20,
        metavar="N",
        help="kill it at N steps at most, evenly spread (default: 20)",
    )
    parser.add_argument(
        "--timeout",
        type=positive,
        default=300.0,
        metavar="SECONDS",
        help="how long it may say nothing (default: 300)",
    )
    parser.add_argument("--keep", action="store_true", help="keep the files and logs of the runs")
    o = parser.parse_args(arguments)
    if o.steps < 2:
        parser.error("--steps must be 2 or more")
    inputs = {}
    for name, path in o.input:
        try:
            inputs[name] = file_of(path)
        except argparse.ArgumentTypeError as error:
            parser.error(f"--input {name}: {error}")
    trial = Trial(
        command=[sys.executable, "-m", "reelay_runtime", o.program, *o.arguments],
        folder=Path(tempfile.mkdtemp(prefix="reelay-runtime-")),
        model=o.model,
        settings={name: value_of(value) for name, value in o.setting},
        prompt=o.prompt,
        params={name: value_of(value) for name, value in o.param},
        inputs=inputs,
        timeout=o.timeout,
    )
    status = 1
    try:
        status = run(trial, o.steps)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        status = 130
    finally:
        if not o.keep and not trial.problems:
            shutil.rmtree(trial.folder, ignore_errors=True)
    return status
