#!/bin/sh
# Fetches torch and the rest into .venv when requirements.txt has changed, which needs 7 GB of disk.
set -eu
cd "$(dirname "$0")"
if ! cmp -s requirements.txt .venv/fetched; then
	rm -rf .venv
	free=$(df -Pk . | awk 'NR == 2 { print int($4 / 1024 / 1024) }')
	if [ "$free" -lt 9 ]; then
		echo "setup:diffusers: torch needs 7 GB of disk, and only $free GB of the 9 GB that should be free are. Free some, and try again." >&2
		exit 1
	fi
	echo "setup:diffusers: fetching torch and the rest, 3 GB ($free GB of disk are free)" >&2
	python3 -m venv .venv
	# No cache: it would need the same space again.
	.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-cache-dir --only-binary :all: --no-deps --require-hashes -r requirements.txt
	cp requirements.txt .venv/fetched
fi
