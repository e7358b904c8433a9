"""Starts the runtime. An agent runs it as: python3 -m reelay_diffusers"""

import os

from reelay_runtime import claim_stdio, serve

# Before torch and the rest are imported: some of them print.
claim_stdio()
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("DIFFUSERS_VERBOSITY", "error")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
# cuBLAS gives the same results in each run only with this.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

from .model import DiffusersModel  # noqa: E402

serve(DiffusersModel())
