#!/bin/sh
# Installs the Debian packages of dist in an empty Debian, boots it in a container without a
# network, starts the unit reelay-up, and renders one video. Fails if that takes more than two
# minutes, the download of what the package needs included. Then it starts the worker of the package
# reelay-agent, and removes both packages. `go tool task test:deb` runs it.
#
# REELAY_DEBIAN_MIRROR is a mirror of Debian (default: debootstrap's), REELAY_DEBIAN_SUITE the
# release to install (default: bookworm).
set -eu
cd "$(dirname "$0")/../.."

limit=120

say() { echo "test:deb: $*" >&2; }

fail() {
	say "$*"
	exit 1
}

[ "$(id -u)" -eq 0 ] || fail "a container can only be made by root: run this as root"
arch=$(dpkg --print-architecture)
folder=$(mktemp -d /var/tmp/reelay-deb.XXXXXX)
root=$folder/root
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

say "making an empty Debian"
debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus "${REELAY_DEBIAN_SUITE:-bookworm}" "$root" ${REELAY_DEBIAN_MIRROR:-} >"$folder/log" 2>&1 || {
	tail -n 20 "$folder/log" >&2
	fail "debootstrap failed, see above"
}
cp dist/reelay_*_"$arch".deb "$root/root/reelay.deb"
cp dist/reelay-agent_*_"$arch".deb "$root/root/reelay-agent.deb"
cp /etc/resolv.conf "$root/etc/resolv.conf"

# container runs a program in it. Its servers must not meet those of this machine.
container() { systemd-nspawn --quiet --directory="$root" --register=no --keep-unit --resolv-conf=off "$@"; }

say "installing the package reelay and what it recommends"
begun=$(date +%s)
container sh -c 'apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -q -y install /root/reelay.deb' >"$folder/log" 2>&1 </dev/null || {
	tail -n 20 "$folder/log" >&2
	fail "apt could not install the package, see above"
}
installed=$(($(date +%s) - begun))

cat >"$root/root/video.sh" <<'END'
set -eu
for compiler in cc gcc go; do
	if command -v "$compiler"; then echo "there is a compiler: $compiler" && exit 1; fi
done
as_reelay() { runuser -u reelay -- "$@"; }

begun=$(date +%s)
systemctl start reelay-up
journalctl --follow --lines=all --output=cat --unit=reelay-up | grep -q -m 1 '^ready '
as_reelay reelay submit --data /var/lib/reelay --prompt 'a lighthouse in the fog' --wait --output /var/lib/reelay/first.mp4
echo "$(($(date +%s) - begun))" >/root/seconds
as_reelay ffprobe -v error -show_entries stream=codec_type -of csv=p=0 /var/lib/reelay/first.mp4 | grep -q -x video

# Both packages may be on one machine.
dpkg -i /root/reelay-agent.deb
echo 'pools: [{name: site, provider: static, region: local, gpuType: none, capacityClass: ON_DEMAND, models: [testcard], maxWorkers: 1}]' |
	as_reelay reelay pools apply --data /var/lib/reelay -f -
key=$(sed -n 's/.*"workerKey": "\(.*\)".*/\1/p' /var/lib/reelay/credentials.json)
cat >>/etc/reelay/agent.env <<EOF
REELAY_ENDPOINT=http://127.0.0.1:8080
REELAY_API_KEY=$key
REELAY_AGENT_POOL=site
REELAY_AGENT_CAPACITY_CLASS=ON_DEMAND
EOF
systemctl start reelay-agent
journalctl --follow --lines=all --output=cat --unit=reelay-agent | grep -q -m 1 'worker registered'

for unit in reelay-agent reelay-up; do
	systemctl stop "$unit"
	[ "$(systemctl show "$unit" --property=Result --value)" = success ]
	[ "$(systemctl show "$unit" --property=NRestarts --value)" = 0 ]
done
[ "$(stat -c '%U:%G %a' /etc/reelay/reelay.env /etc/reelay/agent.env | sort -u)" = 'root:reelay 640' ]
said=$(systemd-analyze verify --man=no /usr/lib/systemd/system/reelay-*.service 2>&1)
[ -z "$said" ] || { echo "$said" && exit 1; }
dpkg --remove reelay-agent reelay
[ -e /var/lib/reelay/first.mp4 ]
touch /root/passed
END
cat >"$root/etc/systemd/system/video.service" <<'END'
[Unit]
After=multi-user.target
SuccessAction=exit-force
FailureAction=exit-force

[Service]
Type=oneshot
ExecStart=/bin/sh -x /root/video.sh
TimeoutStartSec=300
ExecStopPost=/bin/sh -c 'journalctl --no-pager --output=cat --unit=video --unit=reelay-up --unit=reelay-agent >/root/journal'
END
mkdir -p "$root/etc/systemd/system/default.target.wants"
ln -s /etc/systemd/system/video.service "$root/etc/systemd/system/default.target.wants/video.service"

say "booting it and rendering a video"
container --private-network --boot >"$folder/log" 2>&1 </dev/null || true
if [ ! -e "$root/root/passed" ]; then
	tail -n 60 "$root/root/journal" "$folder/log" >&2 || true
	fail "there is no video, see above"
fi
rendered=$(cat "$root/root/seconds")
say "installed in $installed s; first video $rendered s after the start of reelay-up"
[ $((installed + rendered)) -le "$limit" ] || fail "that is more than $limit s"
