#!/bin/bash
# Runs Reelay's agent in a container on a machine of Compute Engine. Everything it needs is in
# the metadata of the machine.
set -u

metadata=http://${GCE_METADATA_HOST:-metadata.google.internal}/computeMetadata/v1/instance
read_metadata() { curl -sf --retry 3 -H 'Metadata-Flavor: Google' "$metadata/$1"; }
optional() { curl -sf -H 'Metadata-Flavor: Google' "$metadata/attributes/$1"; }

container=$(read_metadata attributes/reelay-container) || { echo 'reelay: the metadata has no reelay-container' >&2; exit 1; }
name=$(read_metadata name)
zone=$(read_metadata zone)
umask 077
environment=$(mktemp)
{
	read_metadata attributes/reelay-environment
	echo
	echo "REELAY_AGENT_INSTANCE_ID=$name"
	echo "REELAY_AGENT_ZONE=${zone##*/}"
	if key=$(optional reelay-enrolment-key); then echo "REELAY_API_KEY=$key"; fi
} >"$environment"

arguments=(--name reelay-agent --network host --env-file "$environment")
if command -v nvidia-smi >/dev/null; then arguments+=(--gpus all); fi
if device=$(optional reelay-weights); then
	mkdir -p "${REELAY_WEIGHTS:-/mnt/reelay-weights}"
	mount -o ro "$device" "${REELAY_WEIGHTS:-/mnt/reelay-weights}" &&
		arguments+=(--volume "${REELAY_WEIGHTS:-/mnt/reelay-weights}:/weights:ro")
fi

# Google's registries accept a token of the machine's account.
registry=${container%%/*}
case $registry in
*.pkg.dev | gcr.io | *.gcr.io)
	token=$(read_metadata service-accounts/default/token | sed -n 's/.*"access_token" *: *"\([^"]*\)".*/\1/p')
	if [ -n "$token" ]; then
		printf %s "$token" | docker login --username oauth2accesstoken --password-stdin "https://$registry" ||
			echo "reelay: $registry refuses the account of this machine" >&2
	fi
	;;
esac

docker rm --force reelay-agent >/dev/null 2>&1
docker run --detach "${arguments[@]}" "$container" || { rm -f "$environment"; exit 1; }
rm -f "$environment"

# The log is for the serial console. The agent itself watches for preemptions. If it ended as it was
# asked to, the machine is not needed any more, also if nobody is there to delete it.
status=$(docker wait reelay-agent)
docker logs --tail 50 reelay-agent >&2
if [ "$status" = 0 ]; then shutdown -h now; fi
