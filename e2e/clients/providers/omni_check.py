"""Runs the official package google-genai against a fake of Gemini's Interactions API."""

import re

from check import KEY, URL, film, is_film, refused, until
from google import genai
from google.genai import types

FORMAT = {"type": "video", "delivery": "uri", "aspect_ratio": "16:9", "resolution": "720p", "duration": "8s"}


def connect(key: str) -> genai.Client:
    return genai.Client(api_key=key, http_options=types.HttpOptions(base_url=URL))


client = connect(KEY)


def submit(prompt: str, **changed):
    return client.interactions.create(model="gemini-omni-1.1-flash", input=prompt, background=True, store=True,
                                      response_format=FORMAT | changed)


def end(prompt: str):
    job = submit(prompt)
    assert job.status in ("queued", "in_progress"), job
    return until(lambda: client.interactions.get(job.id), lambda job: job.status not in ("queued", "in_progress"))


job = end("A paper boat")
assert job.status == "completed", job
film(job.output_video.uri, {"x-goog-api-key": KEY})
is_film(client.files.download(file="files/" + re.search("files/([a-z0-9]+)", job.output_video.uri).group(1)))
job = end("Forbidden at the end")
assert job.status == "completed" and job.output_video is None and job.output_text, job
assert end("This fails").status == "failed"
other = connect("another")
for call in (lambda: submit("Forbidden at once"), lambda: submit("A paper boat", duration="1s"),
             lambda: client.interactions.get("v1_unknown"), lambda: other.interactions.get(job.id)):
    with refused(Exception, status_code=400):  # its class is private
        call()

job = submit("A paper kite")
assert client.interactions.cancel(job.id).status in ("cancelled", "completed")
client.interactions.delete(job.id)
print("google-genai: interactions, downloads, cancel and errors work")
