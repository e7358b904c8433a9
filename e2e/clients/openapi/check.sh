#!/bin/sh
# Compares what the REST API does with what its OpenAPI document says.
#
# usage: check.sh ENDPOINT KEY EXAMPLES PHASES
set -eu
cd "$(dirname "$0")"
venv/bin/openapi-spec-validator ../../../web/rest/openapi.json
exec venv/bin/schemathesis run "$1/api/openapi.json" --header "Authorization: Bearer $2" --max-examples "$3" \
	--phases "$4" --continue-on-failure --no-color --no-shrink --workers 1 --output-sanitize true
