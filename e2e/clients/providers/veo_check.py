"""Runs the official package google-genai against a fake of Vertex AI with Veo."""

import google.auth.credentials
from check import KEY, URL, film, is_film, refused, until
from google import genai
from google.genai import errors, types


class Credentials(google.auth.credentials.Credentials):
    """A token that lasts."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self.token = token

    def refresh(self, request) -> None:
        pass


def connect(key: str) -> genai.Client:
    return genai.Client(vertexai=True, project="p1", location="us-central1", credentials=Credentials(key),
                        http_options=types.HttpOptions(base_url=URL, api_version="v1"))


client = connect(KEY)


def submit(prompt: str, **config):
    return client.models.generate_videos(model="veo-3.1-fast-generate-001", source=types.GenerateVideosSource(prompt=prompt),
                                         config=types.GenerateVideosConfig(duration_seconds=4, aspect_ratio="16:9", **config))


def end(prompt: str, **config):
    job = submit(prompt, **config)
    return until(lambda: client.operations.get(job), lambda job: job.done)


is_film(end("A paper boat").response.generated_videos[0].video.video_bytes)
video = end("A paper boat", output_gcs_uri="gs://bucket-1/films").response.generated_videos[0].video
bucket, name = video.uri.removeprefix("gs://").split("/", 1)
film(f"{URL}/storage/v1/b/{bucket}/o/{name.replace('/', '%2F')}?alt=media", {"Authorization": "Bearer " + KEY})

job = end("Forbidden at the end")
assert not job.response.generated_videos and job.response.rai_media_filtered_count == 1, job
assert job.response.rai_media_filtered_reasons, job
assert end("This fails").error["code"] == 13
with refused(errors.ClientError, code=400, status="INVALID_ARGUMENT"):
    submit("Forbidden at once")
other = connect("another")
with refused(errors.ClientError, code=401, status="UNAUTHENTICATED"):
    other.operations.get(job)
print("google-genai: Veo's operations, inline videos, buckets and errors work")
