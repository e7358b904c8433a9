"""The /v1/videos routes of SGLang Diffusion 0.5.23 with a stub for its scheduler.

The routes, protocol, store, progress and sampling parameters are SGLang's own. The scheduler renders one
video at a time, a tenth of a second per step of num_inference_steps, and reports each step. The prompt
"boom" fails.

usage: sglang_server.py SOURCE STORAGE PORT
"""

import asyncio
import contextlib
import dataclasses
import sys
import types
from pathlib import Path

import fastapi
import uvicorn

import stubs
from film import film

SOURCE, STORAGE, PORT = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
GEN = "sglang.multimodal_gen"
API = f"{GEN}.runtime.entrypoints.openai"
stubs.install(
    SOURCE,
    {"sglang", "torch", "zmq", "psutil", "imageio", "cv2", "av", "transformers", "diffusers"},
    {
        f"{API}.video_api",
        f"{API}.protocol",
        f"{API}.storage",
        f"{API}.stores",
        f"{API}.utils",
        f"{API}.video_progress",
        f"{GEN}.configs.sample.sampling_params",
        f"{GEN}.configs.task_type",
        f"{GEN}.configs.utils",
        f"{GEN}.runtime.utils.common",
        f"{GEN}.runtime.utils.image_io",
    },
)

from sglang.multimodal_gen.configs import task_type
from sglang.multimodal_gen.configs.sample import sampling_params
from sglang.multimodal_gen.runtime import server_args as settings

SamplingParams = sampling_params.SamplingParams
sampling_params.RLRolloutArgs.validate_sampling_params = staticmethod(lambda _: None)
SERVER = types.SimpleNamespace(
    attention_backend_config=None,
    backend=None,
    batching_max_size=1,
    enable_trace=False,
    input_save_path=str(Path(STORAGE, "inputs")),
    model_id=None,
    model_path="wan",
    output_path=STORAGE,
    pipeline_class_name=None,
    pipeline_config=types.SimpleNamespace(resolve_task_type=lambda *_, **__: task_type.ModelTaskType.T2V),
    served_model_name="wan",
)
settings.get_global_server_args = lambda: SERVER


def from_user(model_path, server_args, request_id, **fields):
    """As SGLang's, without asking the model's pipeline for its defaults."""
    known = {field.name for field in dataclasses.fields(SamplingParams)}
    params = SamplingParams(**{name: value for name, value in fields.items() if name in known})
    params.request_id = request_id
    params.data_type = task_type.DataType.VIDEO
    params.width, params.height = params.width or 64, params.height or 36
    params._set_output_file_name()
    return params


SamplingParams.from_user_sampling_params_args = staticmethod(from_user)

from sglang.multimodal_gen.runtime.entrypoints.openai import utils, video_api, video_progress

utils.resolve_sampling_params_cls = lambda _: SamplingParams
video_api.resolve_sampling_params_cls = lambda _: SamplingParams


async def unchanged(_request, prompt, **_):
    return prompt


class Request:
    """What the scheduler is given: the parameters, and what the route adds to them."""

    def __init__(self, params):
        self.sampling_params = params
        self.extra = {}

    def __getattr__(self, name):
        return getattr(self.sampling_params, name)


turn = asyncio.Lock()


async def generate(_client, batch, scheduler_batches=None):
    """As process_generation_batch, which sends the batch to the scheduler's processes."""
    params = batch.sampling_params
    async with turn:
        steps = params.num_inference_steps or 10
        for step in range(steps):
            known = video_progress.VIDEO_PROGRESS.update(params.request_id, step, steps)
            if known:
                await video_progress.apply_progress(*known)
            await asyncio.sleep(0.1)
        if params.prompt == "boom":
            raise RuntimeError("Model generation failed. Error from scheduler: CUDA out of memory")
        path = Path(params.output_file_path())
        path.write_bytes(await asyncio.to_thread(film, params.request_id))
    metrics = types.SimpleNamespace(total_duration_s=steps / 10)
    result = dict.fromkeys(["usage", "action_pred", "lidar"]) | {"peak_memory_mb": 1234.0, "metrics": metrics}
    return [str(path)], types.SimpleNamespace(**result)


video_api.process_generation_batch = generate
video_api.maybe_enhance_prompt = unchanged
video_api.prepare_request = lambda server_args, sampling_params, external_trace_header=None: Request(
    sampling_params
)
video_api.extract_trace_headers = lambda _: None


@contextlib.asynccontextmanager
async def lifespan(_):
    yield
    await video_api.shutdown_video_jobs()


app = fastapi.FastAPI(lifespan=lifespan)
app.include_router(video_api.router)


@app.get("/health")
async def health():
    return {"status": "ok"}


@app.get("/v1/models")
async def models():
    return {
        "object": "list",
        "data": [{"id": SERVER.served_model_name, "object": "model", "owned_by": "sglang"}],
    }


Path(STORAGE).mkdir(parents=True, exist_ok=True)
uvicorn.run(app, host="127.0.0.1", port=PORT, log_level="warning")
