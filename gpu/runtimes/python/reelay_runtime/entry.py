"""A model of the catalogue, as the agent names it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from .wire import ProtocolError

T = TypeVar("T")


def ignore(percent: float, message: str) -> None:
    """Is the progress of a load that nobody follows."""


@dataclass(frozen=True)
class Entry:
    """The model to load: its name, the version of its catalogue entry, and its settings."""

    name: str
    version: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    #: Reports how far the load is, in percent.
    progress: Callable[[float, str], None] = field(default=ignore, compare=False, repr=False)

    def same_weights(self, other: Entry) -> bool:
        """Reports whether a load of other also loads this. The version counts all edits of an entry."""
        return self.name == other.name and self.settings == other.settings

    @staticmethod
    def parse(body: Mapping[str, Any], progress: Callable[[float, str], None]) -> Entry:
        return Entry(
            typed(body, "model", str),
            typed(body, "version", int, 0),
            typed(body, "settings", dict, {}),
            progress,
        )


def typed(body: Mapping[str, Any], name: str, kind: type[T], default: T | None = None) -> T:
    """Returns a field of a command. A missing or null one has the default."""
    value = body.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, kind):
        raise ProtocolError(f"{name} is {str(value)[:100]!r}; it must be of type {kind.__name__}")
    return value


def objects(values: list[Any]) -> list[Mapping[str, Any]]:
    """Returns the values. It raises ProtocolError unless all are objects."""
    if not all(isinstance(value, dict) for value in values):
        raise ProtocolError("an element of a list is not an object")
    return values
