#!/bin/sh
# Installs what the examples of clouds are tested with: real packages, each in a virtual environment of its own in
# ~/.cache/reelay-clouds, and Slurm.
#
# usage: setup.sh skypilot | ec2 | slurm
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=${XDG_CACHE_HOME:-$HOME/.cache}/reelay-clouds

packages() {
	if [ "$(cat "$root/$1/fetched" 2>/dev/null)" = "$(cat "$here/$1/requirements.txt")" ]; then
		return
	fi
	echo "clouds: fetching the packages of $1 ($2 MB)" >&2
	rm -rf "${root:?}/$1"
	mkdir -p "$root/$1"
	python3 -m venv "$root/$1/venv"
	"$root/$1/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-cache-dir --only-binary :all: --no-deps \
		--require-hashes -r "$here/$1/requirements.txt"
	cp "$here/$1/requirements.txt" "$root/$1/fetched"
}

for cloud in "$@"; do
	case $cloud in
	skypilot) packages skypilot 460 ;;
	ec2) packages ec2 320 ;;
	slurm)
		if command -v slurmctld >/dev/null; then
			continue
		fi
		if [ "$(id -u)" != 0 ]; then
			echo "clouds: Slurm is tested as root: run this as root" >&2
			exit 1
		fi
		apt-get update -qq >&2
		DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends slurm-wlm munge >&2
		# Its services are not wanted: the tests start their own.
		for service in slurmctld slurmd munge; do
			systemctl disable --now "$service" >/dev/null 2>&1 || true
		done
		;;
	*)
		echo "clouds: there are no packages of $cloud: skypilot, ec2 and slurm are known" >&2
		exit 2
		;;
	esac
done
