#!/bin/sh
# Builds an image of the release in dist, for this machine's architecture, with buildah or Docker, whose
# options follow the name. Unpacks the programs first.
#
# usage: build.sh (reelay | agent | agent-diffusers) [options of `buildah build` or `docker build`]
set -eu
cd "$(dirname "$0")/../.."

fail() {
	echo "images: $*" >&2
	exit 1
}

image=${1:-}
file=deploy/images/$image.Dockerfile
[ -n "$image" ] && [ -f "$file" ] || fail "usage: build.sh (reelay | agent | agent-diffusers) [options of the builder]"
shift

case $(uname -m) in
x86_64) arch=amd64 ;;
aarch64 | arm64) arch=arm64 ;;
*) fail "there is no release for $(uname -m)" ;;
esac
set -- "$@" --build-arg "TARGETARCH=$arch"
archive=$(find dist -maxdepth 1 -name "reelay_*_linux_$arch.tar.gz" 2>/dev/null || true)
[ -f "$archive" ] || fail "dist must have one release for linux/$arch: run \`go tool task release -- -only linux/$arch\`"
version=${archive#dist/reelay_} version=${version%"_linux_$arch.tar.gz"}

programs=dist/linux_$arch
rm -rf "$programs"
mkdir "$programs"
tar -xzf "$archive" -C "$programs" --strip-components=1

# Only this format has health checks.
export BUILDAH_FORMAT=docker
# REELAY_BUILDER can name another program, or have options that come before its verb.
for builder in ${REELAY_BUILDER:+"$REELAY_BUILDER"} buildah docker; do
	if command -v "${builder%% *}" >/dev/null; then break; fi
	builder=
done
[ -n "$builder" ] || fail "there is neither buildah nor docker"
name=reelay
[ "$image" = reelay ] || name=reelay-$image
exec $builder build -f "$file" -t "$name:$version" --build-arg "VERSION=$version" \
	--build-arg "REVISION=$(git rev-parse HEAD 2>/dev/null || echo unknown)" "$@" .
