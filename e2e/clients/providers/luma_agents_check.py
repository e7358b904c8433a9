"""Runs the official package luma-agents against a fake of Luma, which first answers 429 with Retry-After."""

import luma_agents
from check import KEY, URL, film, refused, until

client = luma_agents.Luma(base_url=URL + "/v1", auth_token=KEY)


def submit(prompt: str):
    return client.generations.create(model="ray-3.2", type="video", prompt=prompt, aspect_ratio="16:9",
                                     video={"duration": "5s", "resolution": "720p"})


def end(prompt: str):
    job = submit(prompt)
    assert job.state in ("queued", "processing"), job
    return until(lambda: client.generations.get(job.id), lambda job: job.state in ("completed", "failed"))


job = end("A paper boat")
assert job.state == "completed" and job.output[0].type == "video", job
film(job.output[0].url)
assert end("Forbidden at the end").failure_code == "content_moderated"
assert end("This fails").failure_code == "generation_failed"
with refused(luma_agents.BadRequestError, status_code=400):
    submit("Forbidden at once")
with refused(luma_agents.NotFoundError, status_code=404):
    client.generations.get("17f20503-6c24-4c16-946b-35dbbce2af2f")
with refused(luma_agents.AuthenticationError, status_code=401):
    luma_agents.Luma(base_url=URL + "/v1", auth_token="another").generations.get(job.id)
print("luma-agents: create, get and errors work")
