"""Uses the Videos API of engines, whose addresses are the arguments: fakes, or real ones if they are there."""

import sys

from openai import InternalServerError, NotFoundError, OpenAI


def finished(client, video):
    while video.status in ("queued", "in_progress"):
        video = client.videos.retrieve(video.id)
    return video


def use(engine):
    client = OpenAI(base_url=engine + "/v1", api_key="none", max_retries=0)
    video = client.videos.create(prompt="A paper boat on a calm sea", seconds="4", extra_body={"num_inference_steps": 3})
    assert video.status == "queued", video
    video = finished(client, video)
    assert video.status == "completed", video
    assert video.id in [listed.id for listed in client.videos.list(limit=10)]
    if not getattr(video, "url", None):
        client.videos.download_content(video.id).write_to_file(video.id + ".mp4")

    boom = client.videos.create(prompt="boom", extra_body={"num_inference_steps": 2})
    try:
        failed = finished(client, boom)
        assert failed.status == "failed" and "out of memory" in str(failed.error), failed
    except InternalServerError as answer:  # vLLM-Omni gives a failed job the status of its error
        assert answer.body["message"] == "CUDA out of memory", answer.body
    client.videos.delete(video.id)
    try:
        client.videos.retrieve(video.id)
        raise AssertionError("it is still there")
    except NotFoundError:
        pass


for address in sys.argv[1:]:
    print(address, flush=True)
    use(address)
