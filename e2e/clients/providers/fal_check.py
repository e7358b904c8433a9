"""Runs the official package fal-client against a fake of fal.

It has no option for an address: FAL_QUEUE_RUN_HOST and FAL_RUN_HOST name the host, always with https, and
SSL_CERT_FILE the certificate. FAL_KEY is the key.
"""

import urllib.request

import fal_client
import httpx

MODEL = "fal-ai/kling-video/v2/master/text-to-video"


def main() -> None:
    states = []
    handle = fal_client.submit(MODEL, {"prompt": "A paper boat"}, headers={"x-fal-no-retry": "1"}, priority="low")
    assert handle.request_id, handle
    for event in handle.iter_events(with_logs=True, interval=0.05):
        states.append(type(event).__name__)
    assert states[-1] == "Completed" and {"Queued", "InProgress"} & set(states), states
    check_film(handle.get()["video"]["url"])

    result = fal_client.subscribe(MODEL, {"prompt": "A paper plane"})
    check_film(result["video"]["url"])

    try:
        fal_client.subscribe(MODEL, {"prompt": "Forbidden at the end"})
    except fal_client.FalClientHTTPError as error:
        assert error.status_code == 422, error
        assert error.response.json()["detail"][0]["type"] == "content_policy_violation", error.response.text
    else:
        raise AssertionError("forbidden content must fail at the result")

    try:
        fal_client.submit(MODEL, {"prompt": "Forbidden at once"})
    except (fal_client.FalClientHTTPError, httpx.HTTPStatusError) as error:
        assert error.response.status_code == 422, error
    else:
        raise AssertionError("forbidden content must be refused")

    try:
        fal_client.SyncClient(key="another").submit(MODEL, {"prompt": "A paper boat"})
    except (fal_client.FalClientHTTPError, httpx.HTTPStatusError) as error:
        assert error.response.status_code == 401, error
    else:
        raise AssertionError("a wrong key must be refused")

    handle = fal_client.submit(MODEL, {"prompt": "A paper kite"})
    fal_client.cancel(MODEL, handle.request_id)
    print("fal-client: submit, events, result, subscribe, errors and cancel work")


def check_film(address: str) -> None:
    with urllib.request.urlopen(address) as film:
        assert film.headers["Content-Type"] == "video/mp4", film.headers
        assert film.read(12)[4:8] == b"ftyp"


main()
