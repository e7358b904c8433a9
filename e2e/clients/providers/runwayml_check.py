"""Runs the official package runwayml against a fake of Runway, which first answers 429 with Retry-After."""

import runwayml
from check import KEY, URL, film, refused, until

client = runwayml.RunwayML(base_url=URL, api_key=KEY)


def submit(prompt: str):
    return client.text_to_video.create(model="gen4.5", prompt_text=prompt, ratio="1280:720", duration=5)


task = until(lambda job=submit("A paper boat"): client.tasks.retrieve(job.id), lambda task: task.status == "SUCCEEDED")
film(task.output[0])
film(submit("A paper plane").wait_for_task_output().output[0])

job = submit("Forbidden at the end")
task = until(lambda: client.tasks.retrieve(job.id), lambda task: task.status == "FAILED")
assert task.failure_code.startswith("SAFETY.OUTPUT.") and task.cost.credits == 0, task
with refused(runwayml.BadRequestError, status_code=400):
    submit("Forbidden at once")
with refused(runwayml.NotFoundError, status_code=404):
    client.tasks.retrieve("17f20503-6c24-4c16-946b-35dbbce2af2f")
with refused(runwayml.AuthenticationError, status_code=401):
    runwayml.RunwayML(base_url=URL, api_key="another").tasks.retrieve(job.id)

job = submit("A paper kite that is slow")
client.tasks.delete(job.id)
assert client.tasks.retrieve(job.id).status in ("CANCELLED", "SUCCEEDED")
print("runwayml: submit, retrieve, wait, delete and errors work")
