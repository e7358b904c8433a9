"""Uses what comfy-sdk has for workflows. The key in OTHER_API_KEY is of another account."""

import os

from comfy_sdk import Comfy, ComfyError, JobFailed, NotFound
from comfy_sdk.events import OutputReady, Preview, Progress, StatusChange
from comfy_sdk.exceptions import IdempotencyKeyReuse, InvalidWorkflow, MissingAsset, Unauthorized

client = Comfy()


def graph(seed, steps=10, fail_at=-1):
    workflow = client.workflows.from_file("workflow_api.json")
    workflow.remove_node("0")
    workflow.set_input("1", "seed", seed)
    workflow.set_input("1", "steps", steps)
    workflow.set_input("1", "fail_at", fail_at)
    return workflow


def refused(kind, call):
    try:
        call()
    except kind as error:
        assert type(error) is kind, repr(error)
        return error
    raise AssertionError("it is not refused")


# An asset is uploaded once.
first, second = (client.assets.from_file("photo.png") for _ in range(2))
assert first.commit() == second.commit()
assert second.created_new is False
assert client.assets.get(first.id).hash == first.hash

# Events.
job = client.submit(graph(1, steps=100), idempotency_key="one", metadata={"client": "acme"})
seen = list(job.events())
values = [e.value for e in seen if isinstance(e, Progress)]
assert [e.status for e in seen if isinstance(e, StatusChange)][-1] == "succeeded", seen
assert values == sorted(values) and values[-1] == 1, values
assert any(isinstance(e, Preview) and e.data for e in seen), seen
output = next(e.output for e in seen if isinstance(e, OutputReady))
assert output.type == "video" and output.node_id == "3" and output.job_id == job.id
data = output.to_bytes()
assert data[4:8] == b"ftyp" and len(data) == output.size_bytes
assert output.to_bytes(range=(4, 7)) == b"ftyp"
assert output.get_download_url().url.startswith("http")

# The job, by its id, its key and its labels.
assert client.jobs.get(job.id).get_workflow().graph["3"]["class_type"] == "SaveVideo"
assert client.submit(graph(1, steps=100), idempotency_key="one", metadata={"client": "acme"}).id == job.id
refused(IdempotencyKeyReuse, lambda: client.submit(graph(2), idempotency_key="one"))
assert [j.id for j in client.list_jobs(metadata={"client": "acme"}, limit=1)] == [job.id]
assert job.cancel().status == "succeeded"

# Cancel and failure.
long = client.submit(graph(3, steps=1000))
next(e for e in long.events() if isinstance(e, Progress))
assert long.cancel().status in ("canceling", "canceled")
refused(JobFailed, long.result)
assert long.status == "canceled"
failed = refused(JobFailed, lambda: client.run(graph(4, fail_at=2)))
assert "node 1 (SlowFrames)" in failed.error.message, failed.error

# Refusals say what, why and what to do.
workflow = graph(5)
workflow.json["9"] = {"class_type": "RunPython", "inputs": {}}
assert "RunPython" in str(refused(InvalidWorkflow, lambda: client.submit(workflow)))
workflow = graph(6)
workflow.set_input("1", "image", {"__type": "core/ASSET", "info": {"id": "art_0192f3c8-7a1e-7c3b-9f52-3f3a3c0f7a11"}})
assert "upload it again" in str(refused(MissingAsset, lambda: client.submit(workflow)))
error = refused(ComfyError, lambda: client.submit(graph(7), api_key="comfyui-x"))
assert error.code == "not_supported" and error.request_id, error

# Another account sees nothing of it.
other = Comfy(api_key=os.environ["OTHER_API_KEY"])
refused(NotFound, lambda: other.jobs.get(job.id))
refused(NotFound, lambda: other.assets.get(first.id))
assert list(other.list_jobs()) == []
unused = other.assets.from_file("photo.png")
assert unused.commit() != first.id and unused.created_new and unused.expires_at
unused.delete()
refused(Unauthorized, lambda: Comfy(api_key="rl_live_x").jobs.get(job.id))
