"""Passes parameters of the model, which the official package has no names for."""

import os

from openai import BadRequestError, OpenAI

client = OpenAI(base_url=os.environ["REELAY_ENDPOINT"] + "/v1", api_key=os.environ["REELAY_API_KEY"])
video = client.videos.create(model="sora-2", prompt="A paper boat", extra_body={"params": {"fps": 12, "pace": 0, "durationSeconds": 1}})
assert video.seconds == "1", video
try:
    client.videos.create(model="sora-2", prompt="A paper boat", extra_body={"params": {"fsp": 12}})
    raise AssertionError("it was not refused")
except BadRequestError as refused:
    assert (refused.code, refused.param) == ("invalid_value", "params.fsp"), refused
    assert 'did you mean "fps"?' in refused.message, refused
