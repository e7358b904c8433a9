#!/bin/sh
# Makes the secrets of services.yaml in the folder secrets, except those that are there. Needs root: each secret must
# belong to the user of its containers.
#
# usage: secrets.sh [HOST]   HOST has the stores (default: those of single.yaml)
#
# REELAY is the program (default: the image's).
set -eu
cd "$(dirname "$0")"
host=${1:-}
umask 077
mkdir -p secrets
cd secrets

random() { od -An -N 24 -t x1 /dev/urandom | tr -d ' \n'; }

# make NAME writes its input to a secret that all containers can read, since only root can enter the folder.
make() {
	if [ -e "$1" ]; then return; fi
	cat >"$1.new"
	chmod 444 "$1.new"
	mv "$1.new" "$1"
}

random | make postgres_password
random | make redis_password
random | make s3_access_key
random | make s3_secret_key
random | make grafana_password
echo "requirepass $(cat redis_password)" | make redis_conf
echo "postgres://reelay:$(cat postgres_password)@${host:-postgres}:5432/reelay?sslmode=disable" | make database_url
echo "redis://:$(cat redis_password)@${host:-redis}:6379/0" | make redis_url
if [ ! -e reelay_secrets ]; then
	rm -f reelay_secrets.new
	if [ -n "${REELAY:-}" ]; then
		"$REELAY" secrets create reelay_secrets.new
	else
		docker run --rm --user 0:0 --volume "$PWD:/secrets" "${REELAY_IMAGE:-reelay}:${REELAY_VERSION:-0.1.0}" secrets create /secrets/reelay_secrets.new
	fi
	chown 65532:65532 reelay_secrets.new
	mv reelay_secrets.new reelay_secrets
fi
