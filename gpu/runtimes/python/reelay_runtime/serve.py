"""Speaks the protocol for a model."""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from .entry import Entry
from .failure import Failure, ModelCrash
from .job import Job, Stopped
from .model import LOADING_MODEL, Model, Result
from .render import Render
from .wire import (
    MAX_VERSION,
    AgentGone,
    Outbox,
    ProtocolError,
    claim_stdio,
    clip,
    clip_start,
    decode,
    read_lines,
)

PROTOCOL = 2
STOP_SECONDS = 5.0  # how long a job has to end after the agent is gone

End = tuple[str, Mapping[str, Any]]


def serve(model: Model) -> None:
    """Renders jobs until the agent sends shutdown or standard input ends.

    It takes standard input and output for itself: see claim_stdio. Standard error is free.
    """
    commands, messages = claim_stdio()
    if os.environ.get("RANK", "0") != "0":
        model.follow()
        return
    server = _Server(model, messages)
    try:
        server.run(commands)
    except AgentGone:
        return
    if server.fault:
        sys.exit(f"reelay-runtime: {server.fault}")


class _Server:
    def __init__(self, model: Model, messages: BinaryIO) -> None:
        self.model = model
        self.outbox = Outbox(messages)
        self.work: queue.SimpleQueue[Callable[[], End] | None] = queue.SimpleQueue()
        self.lock = threading.Lock()
        self.busy = False  # a load or a job is running
        self.job: Job | None = None
        self.loaded: Entry | None = None
        self.fault = ""  # how the agent broke the protocol

    def run(self, commands: BinaryIO) -> None:
        models = [
            {"name": name, "version": clip(version, MAX_VERSION)} if version else name
            for name, version in self.model.models.items()
        ]
        self.outbox.send("ready", {"protocol": PROTOCOL, "runtime": self.model.runtime, "models": models})
        threading.Thread(target=self._read, args=(commands,), name="commands", daemon=True).start()
        while (task := self.work.get()) is not None:
            name, body = task()
            # The agent can answer with the next job at once, so the old one is over before.
            with self.lock:
                self.busy, self.job = False, None
            try:
                self.outbox.send(name, body)
            except (TypeError, ValueError) as error:
                self.outbox.send("error", describe(ModelCrash(f"The job's output cannot be sent: {error}.")))

    def _read(self, commands: BinaryIO) -> None:
        """Reads commands while the main thread works."""
        try:
            for line in read_lines(commands):
                if not self._obey(*decode(line)):
                    break
        except (Exception, AgentGone) as error:
            self.fault = f"{type(error).__name__}: {error}"
        with self.lock:
            if self.job:
                self.job.cancel()
        self.work.put(None)
        # The main thread exits between two steps. This thread then dies with the process.
        time.sleep(STOP_SECONDS)
        os._exit(1)

    def _obey(self, name: str, body: Mapping[str, Any]) -> bool:
        match name:
            case "load":
                entry = Entry.parse(body, self._loading)
                self._begin(None, lambda: self._load(entry))
            case "start":
                job = Job(body, Entry.parse(body, self._loading))
                self._begin(job, lambda: self._render(job))
            case "checkpoint" | "cancel":
                with self.lock:
                    if self.job and name == "cancel":
                        self.job.cancel()
                    elif self.job:
                        self.job.ask_checkpoint()
            case "shutdown":
                return False
            case _:
                warning = f"the runtime ignores the unknown command {name[:100]!r}"
                self.outbox.send("log", {"level": "warn", "message": warning})
        return True

    def _begin(self, job: Job | None, task: Callable[[], End]) -> None:
        with self.lock:
            if self.busy:
                raise ProtocolError("the agent sent load or start while a load or a job is running")
            self.busy, self.job = True, job
        self.work.put(task)

    def _load(self, entry: Entry) -> End:
        try:
            fetch = self._ensure_loaded(entry)
        except (Exception, SystemExit) as error:
            return "error", self._describe(error)
        body: dict[str, Any] = {"model": entry.name}
        if fetch > 0:
            body["fetchSeconds"] = round(fetch, 3)
        return "loaded", body

    def _ensure_loaded(self, entry: Entry) -> float:
        """Returns how many seconds the weights were downloaded."""
        if self.model.models and entry.name not in self.model.models:
            raise ModelCrash(f"This runtime has no model {entry.name!r}.")
        if self.loaded is None or not entry.same_weights(self.loaded):
            self.loaded = None
            fetch = self.model.load(entry)
            self.loaded = entry
            return fetch or 0.0
        return 0.0

    def _loading(self, percent: float, message: str) -> None:
        percent = round(min(max(percent, 0.0), 100.0), 1)
        progress = {"percent": percent, "phase": LOADING_MODEL, "message": clip(message)}
        self.outbox.send("progress", progress)
        if self.job:
            self.job.check_cancelled()
            if self.job.take_checkpoint_request():
                self.outbox.send("checkpoint", {"step": 0, "percent": 0})

    def _render(self, job: Job) -> End:
        try:
            if not job.workdir.is_absolute() or not job.workdir.is_dir():
                raise ModelCrash(f"The workdir {str(job.workdir)!r} is not an absolute path of a folder.")
            self._ensure_loaded(job.model)
            result = Render(self.model, job, self.outbox).run()
            return "result", fields(job, result)
        except Stopped:
            return "cancelled", {}
        except (Exception, SystemExit) as error:
            # Work that is torn down by a cancel can fail in any way.
            return ("cancelled", {}) if job.cancelled else ("error", self._describe(error))

    def _describe(self, error: BaseException) -> dict[str, Any]:
        return describe(translated(self.model, error))


def translated(model: Model, error: BaseException) -> BaseException:
    """Returns the failure that the model says an error is, or the error itself."""
    if isinstance(error, Failure) or not isinstance(error, Exception):
        return error
    failure = model.translate(error)
    if failure is None:
        return error
    failure.__cause__ = error
    return failure


def fields(job: Job, result: Result) -> dict[str, Any]:
    files = {
        "video": result.video,
        "thumbnail": result.thumbnail,
        "spritesheet": result.spritesheet,
        "preview": result.preview,
    }
    body: dict[str, Any] = {name: str(job.workdir / Path(path)) for name, path in files.items() if str(path)}
    if result.output is not None:
        body["output"] = result.output
    return body


def describe(error: BaseException) -> dict[str, Any]:
    """Returns the fields of an error message."""
    failure = error if isinstance(error, Failure) else ModelCrash(f"{type(error).__name__}: {error}")
    detail = failure.detail
    if not detail and failure.failure_class == "MODEL_CRASH":
        detail = "".join(traceback.format_exception(error))
    body: dict[str, Any] = {
        "class": failure.failure_class,
        "message": clip(str(failure) or type(failure).__name__),
    }
    if detail:
        body["detail"] = clip_start(detail)
    if failure.retry_after_seconds > 0:
        body["retryAfterSeconds"] = int(failure.retry_after_seconds)
    return body
