"""The lines of the protocol: their limits, and the pipes on which they travel."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

MAX_LINE = 1 << 20  # bytes of a line, including the newline
MAX_TEXT = 2000  # bytes of a text for people
MAX_DETAIL = 16 << 10  # bytes of a failure's detail
MAX_VERSION = 100  # bytes of a model's version

_claimed: tuple[BinaryIO, BinaryIO] | None = None


class AgentGone(BaseException):
    """The agent no longer reads. There is nobody to report an error to."""


class ProtocolError(Exception):
    """The agent sent something that is not a line of the protocol."""


def claim_stdio() -> tuple[BinaryIO, BinaryIO]:
    """Takes standard input and output for the protocol, and returns them.

    From now on, file descriptor 1 is standard error, and file descriptor 0 is empty. So
    neither a print in a library, nor C code, nor a subprocess can write to the protocol or
    read from it. Call it before you import libraries that print. More calls have no effect.
    """
    global _claimed  # noqa: PLW0603
    if _claimed is None:
        # Duplicates are not inherited by subprocesses.
        commands = os.fdopen(os.dup(0), "rb")
        messages = os.fdopen(os.dup(1), "wb", buffering=0)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
        if sys.stdout is not None:
            # What was printed before and is still in the buffer goes to standard error.
            sys.stdout.flush()
        _claimed = commands, messages
    return _claimed


def clip(text: str, limit: int = MAX_TEXT) -> str:
    """Cuts a text to a number of bytes of UTF-8. The end of a cut text is an ellipsis."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return data.decode()
    return data[: limit - 3].decode("utf-8", "ignore") + "…"


def clip_start(text: str, limit: int = MAX_DETAIL) -> str:
    """Cuts a text to its last bytes, since a traceback says most at its end."""
    return text.encode("utf-8", "replace")[-limit:].decode("utf-8", "ignore")


def encode(name: str, body: Mapping[str, Any]) -> bytes:
    """Returns the line of a message. It raises ValueError if there is no such line."""
    text = json.dumps({name: body}, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    line = text.encode("utf-8", "replace") + b"\n"
    if len(line) > MAX_LINE:
        raise ValueError(f"the message {name!r} has {len(line)} bytes; at most {MAX_LINE} are allowed")
    return line


def decode(line: bytes) -> tuple[str, dict[str, Any]]:
    """Returns the name and the fields of a command."""
    try:
        envelope = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"a command is not JSON: {error}") from error
    if not isinstance(envelope, dict) or len(envelope) != 1:
        raise ProtocolError("a command is not an object with one key, its name")
    ((name, body),) = envelope.items()
    if not isinstance(body, dict):
        raise ProtocolError(f"the value of the command {name[:100]!r} is not an object")
    return name, body


def read_lines(commands: BinaryIO) -> Iterator[bytes]:
    """Yields whole lines. A last line without a newline counts as not written."""
    while line := commands.readline(MAX_LINE + 1):
        if len(line) > MAX_LINE:
            raise ProtocolError(f"a command is longer than {MAX_LINE} bytes")
        if line.endswith(b"\n"):
            yield line


class Outbox:
    """Writes messages, one line with one write each. It is safe for use by several threads."""

    def __init__(self, messages: BinaryIO) -> None:
        self._messages = messages
        self._lock = threading.Lock()

    def send(self, name: str, body: Mapping[str, Any]) -> None:
        line = memoryview(encode(name, body))
        with self._lock:
            try:
                while line:
                    line = line[self._messages.write(line) :]
            except OSError as error:
                raise AgentGone from error
