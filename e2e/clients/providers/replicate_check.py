"""Runs the official package replicate against a fake of Replicate.

REPLICATE_BASE_URL is its address, and REPLICATE_API_TOKEN the key.
"""

import os
import urllib.request

import replicate
from replicate.exceptions import ModelError, ReplicateError

MODEL = "kwaivgi/kling-v2.1"


def main() -> None:
    client = replicate.Client(base_url=os.environ["REPLICATE_BASE_URL"])
    client.poll_interval = 0.05

    prediction = client.models.predictions.create(MODEL, input={"prompt": "A paper boat", "duration": 5})
    assert prediction.status in ("starting", "processing"), prediction.status
    prediction.wait()
    assert prediction.status == "succeeded", prediction.error
    check_film(prediction.output)

    output = client.run(MODEL, input={"prompt": "A paper plane"}, wait=False)
    check_film(output.url)

    versioned = client.predictions.create(version="5c7d5dc6dd8bf75c1acaa8565735e7986bc5b66206b55cca93cb72c9bf15ccaa",
                                          input={"prompt": "A paper kite"})
    versioned.reload()
    versioned.cancel()
    versioned.reload()
    assert versioned.status in ("canceled", "succeeded"), versioned.status
    assert versioned.id in [p.id for p in client.predictions.list()]

    try:
        client.run(MODEL, input={"prompt": "Forbidden at the end"}, wait=False)
    except ModelError as error:
        assert "E005" in str(error), error
    else:
        raise AssertionError("forbidden content must fail")

    expect(422, lambda: client.models.predictions.create(MODEL, input={"prompt": ""}))
    expect(404, lambda: client.predictions.get("unknown"))
    other = replicate.Client(base_url=os.environ["REPLICATE_BASE_URL"], api_token="another")
    expect(401, lambda: other.models.predictions.create(MODEL, input={"prompt": "A paper boat"}))
    print("replicate: predictions, run, versions, list, cancel and errors work")


def expect(status, call) -> None:
    try:
        call()
    except ReplicateError as error:
        assert error.status == status, error
    else:
        raise AssertionError(f"the status must be {status}")


def check_film(address: str) -> None:
    with urllib.request.urlopen(address) as film:
        assert film.headers["Content-Type"] == "video/mp4", film.headers
        assert film.read(12)[4:8] == b"ftyp"


main()
