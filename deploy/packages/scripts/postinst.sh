#!/bin/sh
# Makes the user of the units, and gives it what it reads. It starts nothing: settings come first.
set -e

if [ "$1" = configure ]; then
	if ! getent passwd reelay >/dev/null; then
		adduser --quiet --system --group --home /var/lib/reelay --no-create-home --gecos Reelay reelay
	fi
	# The groups of GPU devices, where the machine has them.
	for group in video render; do
		if getent group "$group" >/dev/null; then adduser --quiet reelay "$group"; fi
	done
	for file in reelay.env agent.env; do
		if [ -e "/etc/reelay/$file" ]; then
			chown root:reelay "/etc/reelay/$file"
			chmod 0640 "/etc/reelay/$file"
		fi
	done
	install -d -o reelay -g reelay -m 0750 /var/lib/reelay
	if [ "$DPKG_MAINTSCRIPT_PACKAGE" = reelay ]; then
		install -d -o reelay -g reelay -m 0700 /var/backups/reelay
	fi
	if [ -d /run/systemd/system ]; then
		systemctl daemon-reload
	fi
fi
