#!/bin/sh
# Checks the diffusers runtime: its format, its types, and its tests with tiny pipelines on
# the CPU.
set -eu
cd "$(dirname "$0")"
sh setup.sh
# More threads are slower on a busy machine: they wait for each other without sleeping.
OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1
export OMP_NUM_THREADS PYTHONDONTWRITEBYTECODE
.venv/bin/python -m ruff check --quiet --no-cache .
.venv/bin/python -m ruff format --quiet --no-cache --check .
.venv/bin/python -m mypy --no-error-summary
exec .venv/bin/python -m pytest "$@"
