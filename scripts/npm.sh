#!/bin/sh
# Fetches the npm packages that a folder's package-lock.json names.
#
# usage: npm.sh FOLDER
set -eu
cd "$1"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "npm: fetching the packages of $1" >&2
if ! npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >"$log" 2>&1 </dev/null; then
	tail -n 10 "$log" >&2
	echo "npm: the packages of $1 could not be fetched (see above); try again when the npm registry can be reached" >&2
	exit 1
fi
