"""Runs the official package lumaai, of Luma's older API, against a fake of Luma."""

import lumaai
from check import KEY, URL, film, refused, until

client = lumaai.LumaAI(base_url=URL + "/dream-machine/v1", auth_token=KEY)


def submit(prompt: str):
    return client.generations.video.create(model="ray-2", prompt=prompt, duration="5s", resolution="720p", aspect_ratio="16:9")


def end(prompt: str):
    job = submit(prompt)
    assert job.state in ("queued", "dreaming"), job
    return until(lambda: client.generations.get(job.id), lambda job: job.state in ("completed", "failed"))


job = end("A paper boat")
assert job.state == "completed" and job.request.prompt == "A paper boat", job
film(job.assets.video)
job = end("Forbidden at the end")
assert job.state == "failed" and "moderation" in job.failure_reason, job
with refused(lumaai.BadRequestError, status_code=400):
    submit("Forbidden at once")
with refused(lumaai.AuthenticationError, status_code=401):
    lumaai.LumaAI(base_url=URL + "/dream-machine/v1", auth_token="another").generations.get(job.id)

job = submit("A paper kite")
assert job.id in [other.id for other in client.generations.list().generations]
client.generations.delete(job.id)
print("lumaai: create, get, list, delete and errors work")
