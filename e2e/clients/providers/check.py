"""What the checks of all packages need."""

import contextlib
import os
import time
import urllib.request

KEY = os.environ["REELAY_CHECK_KEY"]
URL = os.environ["REELAY_CHECK_URL"]


def until(read, ended):
    """Reads a job until it has ended."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        job = read()
        if ended(job):
            return job
        time.sleep(0.05)
    raise AssertionError(f"it does not end: {job}")


def film(address: str, headers: dict = {}) -> None:
    """Downloads a film."""
    with urllib.request.urlopen(urllib.request.Request(address, headers=headers)) as answer:
        assert answer.headers["Content-Type"] == "video/mp4", answer.headers
        is_film(answer.read())


def is_film(data: bytes) -> None:
    assert data[4:8] == b"ftyp", data[:100]


@contextlib.contextmanager
def refused(kind, **fields):
    """Expects an error of a kind with these fields."""
    try:
        yield
    except kind as error:
        for name, value in fields.items():
            assert getattr(error, name) == value, (name, getattr(error, name), error)
    else:
        raise AssertionError(f"{kind.__name__} is expected")
