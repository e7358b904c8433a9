#!/bin/sh
# Compares what the REST API does with what its OpenAPI document says.
#
# usage: check.sh ENDPOINT KEY EXAMPLES PHASES [OPTIONS OF SCHEMATHESIS]
set -eu
cd "$(dirname "$0")"
endpoint=$1 key=$2 examples=$3 phases=$4
shift 4
venv/bin/openapi-spec-validator ../../../web/rest/openapi.json
exec venv/bin/schemathesis run "$endpoint/api/openapi.json" --header "Authorization: Bearer $key" --max-examples "$examples" \
	--phases "$phases" --continue-on-failure --no-color --no-shrink --workers 1 --output-sanitize true "$@"
