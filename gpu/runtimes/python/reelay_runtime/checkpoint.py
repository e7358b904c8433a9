"""Checkpoint files: whole or absent, and checked before they are used.

A file consists of what the model wrote, a description in JSON, and a trailer of fixed size:
the SHA-256 of both, the length of the description, and a mark.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from .failure import CheckpointRejected

FORMAT = "reelay-runtime"
VERSION = 1

_MARK = b"RLPYCKP1"
_TRAILER = struct.Struct("<32sI8s")
_CHUNK = 1 << 20


def write(path: Path, describe: dict[str, Any], save: Callable[[Path], object]) -> None:
    """Writes a complete, durable file at path, or none."""
    unfinished = path.with_name(f".{path.name}.tmp")
    try:
        save(unfinished)
        with unfinished.open("r+b") as file:
            digest = hashlib.file_digest(file, "sha256")
            file.seek(0, os.SEEK_END)
            description = json.dumps(describe).encode()
            digest.update(description)
            file.write(description + _TRAILER.pack(digest.digest(), len(description), _MARK))
            file.flush()
            os.fsync(file.fileno())
        unfinished.rename(path)
        _sync_folder(path.parent)
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)


def read(path: Path, content: Path) -> dict[str, Any]:
    """Copies what the model wrote to content, and returns the description of the file.

    It raises CheckpointRejected unless the file is whole.
    """
    try:
        with path.open("rb") as source, content.open("wb") as target:
            return _read(source, target)
    except OSError as error:
        raise CheckpointRejected(f"it cannot be read: {error}") from error


def _read(source: BinaryIO, target: BinaryIO) -> dict[str, Any]:
    size = source.seek(0, os.SEEK_END)
    if size < _TRAILER.size:
        raise CheckpointRejected("it is cut short")
    source.seek(size - _TRAILER.size)
    expected, length, mark = _TRAILER.unpack(source.read(_TRAILER.size))
    left = size - _TRAILER.size - length
    if mark != _MARK or left < 0:
        raise CheckpointRejected("it is cut short, or was not written by this kit")

    source.seek(0)
    digest = hashlib.sha256()
    while left:
        chunk = source.read(min(left, _CHUNK))
        if not chunk:
            raise CheckpointRejected("it is cut short")
        digest.update(chunk)
        target.write(chunk)
        left -= len(chunk)
    description = source.read(length)
    digest.update(description)
    if digest.digest() != expected:
        raise CheckpointRejected("its checksum is wrong")
    described = json.loads(description)
    if not isinstance(described, dict):
        raise CheckpointRejected("its description is not an object")
    return described


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
