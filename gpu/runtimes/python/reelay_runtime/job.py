"""A job: what the agent asked for, and the reports on it."""

from __future__ import annotations

import hashlib
import json
import math
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from .entry import Entry, objects, typed
from .failure import InvalidInput
from .model import Step

if TYPE_CHECKING:
    from .render import Render

T = TypeVar("T", bool, int, float, str)


class Stopped(BaseException):
    """Ends a job that was cancelled. Do not catch it, except to clean up and raise it again."""


class Job:
    """One job. Its fields are those of the protocol's start command."""

    def __init__(self, body: Mapping[str, Any], model: Entry) -> None:
        self.model = model
        self.id = typed(body, "job", str)
        self.type = typed(body, "type", str, "")
        self.params: Mapping[str, Any] = typed(body, "params", dict, {})
        self.prompt = typed(body, "prompt", str, "")
        self.workdir = Path(typed(body, "workdir", str))
        self.inputs = {name: Path(path) for name, path in typed(body, "inputs", dict, {}).items()}
        self.checkpoints = [
            (typed(given, "path", str), typed(given, "step", int, 0))
            for given in objects(typed(body, "checkpoints", list, []))
        ]
        self.strict = typed(body, "determinism", str, "best-effort") == "strict"
        self.draft_steps = typed(body, "draftSteps", int, 0)
        #: What an earlier attempt of this job sent last with send_handle, or "" if there is nothing
        #: to adopt. It can be a secret: do not print it.
        self.handle: str = typed(body, "handle", str, "")
        #: The W3C traceparent of the attempt's span, or "" if the job is not traced: the parent for
        #: spans of your own, as in ``propagate.extract({"traceparent": job.traceparent})``.
        self.traceparent: str = typed(body, "traceparent", str, "")

        self.render: Render | None = None
        self._cancelled = threading.Event()
        self._checkpoint_asked = threading.Event()

    def param(
        self,
        name: str,
        default: T | type[T],
        *,
        low: float = -math.inf,
        high: float = math.inf,
        among: Sequence[T] = (),
    ) -> T:
        """Returns a parameter. It raises InvalidInput unless the value is allowed.

        The value has the type of the default. A whole number is also a float. Reelay checks the
        bounds of the catalogue's entry and fills in its defaults before a job gets here, so a type
        in place of the default is enough: ``job.param("steps", int)``. Then the parameter must be there.
        """
        kind: type[T]
        if isinstance(default, type):
            kind = default
            if name not in self.params:
                raise InvalidInput(f"{name} is missing: give it, or a default in the catalogue's entry.")
            value = self.params[name]
        else:
            kind = type(default)
            value = self.params.get(name, default)
        if kind is float and type(value) is int:
            value = float(value)
        if kind is int and type(value) is float and value.is_integer():
            value = int(value)
        if type(value) is not kind:
            raise InvalidInput(f"{name} is {str(value)[:100]!r}; it must be of type {kind.__name__}.")
        if isinstance(value, int | float) and not low <= value <= high:
            raise InvalidInput(f"{name} is {value}; it must be from {low:g} to {high:g}.")
        if among and value not in among:
            options = ", ".join(str(option) for option in among)
            raise InvalidInput(f"{name} is {str(value)[:100]!r}; it must be one of: {options}.")
        return value

    def report(self, step: Step) -> None:
        """Does what a yield of step does, for code that calls back after each step.

        It can save the model's state, and raises Stopped if the job ends here.
        """
        self._rendering().report(step)

    def check_cancelled(self) -> None:
        """Raises Stopped if the job was cancelled. Call it within steps of many seconds."""
        if self.cancelled:
            raise Stopped

    def attend(self) -> None:
        """Raises Stopped if the job was cancelled, and saves if the agent asked for it.

        Call it within steps of many seconds, if save then writes the state after the last step:
        a preemption leaves little time.
        """
        self._rendering().attend()

    @property
    def cancelled(self) -> bool:
        return self._cancelled.is_set()

    def cancel(self) -> None:
        self._cancelled.set()

    def ask_checkpoint(self) -> None:
        self._checkpoint_asked.set()

    def take_checkpoint_request(self) -> bool:
        """Reports whether the agent asked for a checkpoint since the last call."""
        asked = self._checkpoint_asked.is_set()
        self._checkpoint_asked.clear()
        return asked

    def log(self, level: str, message: str) -> None:
        """Adds a line to the job's log. The level is debug, info, warn or error."""
        self._rendering().log(level, message)

    def send_handle(self, value: str) -> None:
        """Stores a text that names work which goes on outside this process.

        It is, for example, the id of a job on another server. Call it as soon as there is one. If
        this attempt is lost or fails, the next one has it in handle, and adopts the work. A newer
        handle replaces it. An empty one clears it: call it so when the work has failed. The end of
        the job clears it, too.

        It raises ValueError if the text has more than 2,000 bytes of UTF-8, a NUL, U+FFFD or a
        surrogate, and TypeError if it is no text.
        """
        self._rendering().send_handle(value)

    def _rendering(self) -> Render:
        if self.render is None:
            raise RuntimeError("this job is not running")
        return self.render

    def digest(self, identity: Mapping[str, Any]) -> str:
        """Returns the SHA-256 of an identity and of the job's input files."""
        digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode())
        for name, path in sorted(self.inputs.items()):
            with path.open("rb") as file:
                digest.update(f"\0{name}\0".encode() + hashlib.file_digest(file, "sha256").digest())
        return digest.hexdigest()
