"""The /v1/videos routes of vLLM-Omni 0.30.0 with a stub for its engine.

The protocol, stores, storage, form parser and handlers are vLLM-Omni's own. The engine renders one video
at a time, for as many seconds as the request says in num_inference_steps / 10. A prompt that is "boom",
"dead" or "bad" fails as an engine does; "stuck" cannot be aborted.

usage: vllm_omni_server.py SOURCE STORAGE PORT
"""

import ast
import asyncio
import logging
import os
import sys
import time
import types
import typing
import uuid
from http import HTTPStatus
from pathlib import Path
from unittest.mock import MagicMock

import fastapi
import fastapi.responses
import pydantic
import uvicorn

import stubs
from film import film

SOURCE, STORAGE, PORT = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
os.environ["VLLM_OMNI_SERVER_STORAGE__PATH"] = STORAGE
API = "vllm_omni.entrypoints.openai"
STUBBED = (
    "vllm_omni vllm torch transformers diffusers torchaudio librosa soundfile av cv2 safetensors einops scipy"
)
stubs.install(
    SOURCE,
    STUBBED.split(),
    {
        f"{API}.video.generation.helpers",
        f"{API}.protocol.videos",
        f"{API}.image_api_utils",
        f"{API}.errors",
        f"{API}.storage",
        f"{API}.stores",
        "vllm_omni.config.server_settings",
        "vllm_omni.errors",
    },
)


class EngineGenerateError(Exception):
    pass


class EngineDeadError(Exception):
    pass


class Engine:
    """What the routes call, as OmniOpenAIServingVideo and the engine's client have it."""

    model_name = "wan"
    stage_configs = None
    supported_control_upload_types = ()
    supports_latent_mask_editing = False
    supports_mixed_reference_inputs = False

    def __init__(self):
        self.turn = asyncio.Lock()

    def set_stage_configs_if_missing(self, _):
        pass

    async def abort_request(self, video_id):
        pass

    async def check_health(self):
        pass

    async def show_available_models(self):
        model = {"id": self.model_name, "object": "model", "created": 0, "owned_by": "vllm"}
        return types.SimpleNamespace(model_dump=lambda: {"object": "list", "data": [model]})

    async def generate_video_bytes(self, request, video_id, on_started=None, **_):
        async with self.turn:
            if on_started:
                await on_started()
            seconds = (request.num_inference_steps or 10) / 10
            if request.prompt == "stuck":
                time_is_up = time.monotonic() + seconds
                while time.monotonic() < time_is_up:
                    try:
                        await asyncio.sleep(seconds)
                    except asyncio.CancelledError:
                        logging.warning("the engine cannot abort %s and renders on", video_id)
            await asyncio.sleep(seconds)
            if request.prompt == "boom":
                raise EngineGenerateError("CUDA out of memory")
            if request.prompt == "dead":
                raise EngineDeadError("engine died")
            if request.prompt == "bad":
                raise ValueError("bad frames")
            return await asyncio.to_thread(film, video_id), {"denoise": seconds}, 1234.0, None


def routes():
    """Takes the functions of the video routes out of api_server.py, which would import all of vLLM."""
    import vllm.entrypoints.serve
    import vllm.logger
    import vllm.v1.engine.exceptions
    import vllm_omni.entrypoints.openai.app_state
    import vllm_omni.inputs.data

    vllm.v1.engine.exceptions.EngineGenerateError = EngineGenerateError
    vllm.v1.engine.exceptions.EngineDeadError = EngineDeadError
    vllm.logger.init_logger = logging.getLogger
    vllm.entrypoints.serve.create_error_response = lambda error: types.SimpleNamespace(
        error=types.SimpleNamespace(code=500, message=str(error))
    )
    vllm_omni.inputs.data.DIFFUSION_QUALITY_LEVELS = ("lossless", "high")
    vllm_omni.entrypoints.openai.app_state.Omnivideo = lambda request: request.app.state.openai_serving_video

    from vllm_omni.entrypoints.openai import storage, stores
    from vllm_omni.entrypoints.openai.protocol import videos
    from vllm_omni.entrypoints.openai.video.generation import helpers

    names = {**vars(typing), **vars(fastapi), **vars(fastapi.responses), **vars(pydantic)}
    for module in (helpers, videos, stores, storage):
        names.update(vars(module))
    names.update(
        router=fastapi.APIRouter(),
        asyncio=asyncio,
        time=time,
        HTTPStatus=HTTPStatus,
        ErrorResponse=pydantic.create_model("ErrorResponse", error=(typing.Any, None)),
        EngineDeadError=EngineDeadError,
        RequestResponseMetadata=MagicMock,
        VIDEO_ABORT_TIMEOUT_S=2.0,
        _require_single_api_video_store=lambda: None,
        _create_engine_error_json_response=lambda _, error: fastapi.responses.JSONResponse(
            {"error": {"message": str(error)}}, 500
        ),
        random_uuid=lambda: uuid.uuid4().hex,
        __name__="routes",
    )
    wanted = {"create_video", "create_video_sync", "list_videos", "retrieve_video", "delete_video"}
    wanted |= {"download_video", "health", "show_available_models"}
    file = SOURCE / "vllm_omni/entrypoints/openai/api_server.py"
    functions = [
        node
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.AsyncFunctionDef) and node.name in wanted
    ]
    exec(compile(ast.Module(functions, []), file, "exec"), names)
    return names["router"]


app = fastapi.FastAPI()
app.include_router(routes())
app.state.openai_serving_video = app.state.engine_client = app.state.openai_serving_models = Engine()
uvicorn.run(app, host="127.0.0.1", port=PORT, log_level="warning")
