#!/bin/sh
# Stops the units of a package that is removed. An upgrade stops nothing: docs/operators/deployment.md
# says in which order the processes are restarted.
set -e

if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
	for unit in $(dpkg -L "$DPKG_MAINTSCRIPT_PACKAGE" | sed -n 's|^/usr/lib/systemd/system/||p'); do
		systemctl --quiet disable --now "$unit" || true
	done
fi
