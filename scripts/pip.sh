#!/bin/sh
# Fetches the Python packages that a folder's requirements.txt names, into a
# virtual environment in it.
#
# usage: pip.sh FOLDER
set -eu
cd "$1"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "pip: fetching the packages of $1" >&2
rm -rf venv
if ! { python3 -m venv venv && venv/bin/python -m pip install --disable-pip-version-check --only-binary :all: --no-deps --require-hashes -r requirements.txt; } >"$log" 2>&1 </dev/null; then
	rm -rf venv
	tail -n 10 "$log" >&2
	echo "pip: the packages of $1 could not be fetched (see above); try again when the package index can be reached" >&2
	exit 1
fi
touch venv/fetched
