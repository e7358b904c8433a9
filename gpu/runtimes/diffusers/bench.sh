#!/bin/sh
# Measures a pipeline on this machine's GPU, unattended and within 10 minutes after torch is fetched.
set -eu
cd "$(dirname "$0")"
if ! nvidia-smi -L 2>/dev/null | grep -q GPU; then
	echo "bench:gpu: skipped: this machine has no NVIDIA GPU (nvidia-smi finds none)" >&2
	exit 0
fi
sh setup.sh
PYTHONPATH=".:../python" exec .venv/bin/python -m reelay_diffusers.bench "$@"
