#!/bin/sh
# Installs the programs that Reelay runs and that are missing, with the system's
# package manager. Silent and quick when all of them are there.
#
# usage: setup.sh [programs | browser | deb | images | kubernetes]
set -eu

have() { command -v "$1" >/dev/null 2>&1; }

# any is true if one of the paths is a program.
any() {
	for path; do
		if [ -x "$path" ]; then return 0; fi
	done
	return 1
}

have_postgres() {
	{ have postgres && have initdb; } ||
		any /usr/lib/postgresql/*/bin/postgres /usr/pgsql-*/bin/postgres \
			/opt/homebrew/opt/postgresql*/bin/postgres /usr/local/opt/postgresql*/bin/postgres
}

have_redis() { have redis-server || any /opt/homebrew/bin/redis-server /usr/local/bin/redis-server; }

have_browser() {
	have chromium || have chromium-browser || have google-chrome || have google-chrome-stable ||
		any "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome" /Applications/Chromium.app/Contents/MacOS/Chromium
}

have_python() { python3 -c 'import ensurepip, venv' 2>/dev/null; }

say() { echo "setup: $*" >&2; }

fail() {
	say "$*"
	exit 1
}

as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif have sudo; then
		sudo "$@"
	else
		fail "'$*' needs root, and there is no sudo here. Run 'go tool task setup' as root once."
	fi
}

policy=/usr/sbin/policy-rc.d made_policy= log=

clean_up() {
	if [ -n "$made_policy" ]; then as_root rm -f "$policy"; fi
	if [ -n "$log" ]; then rm -f "$log"; fi
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# apt_install installs packages without starting the services that they bring:
# Reelay runs servers of its own and would only meet these on their ports.
apt_install() {
	say "installing $* with apt (this takes a minute or two)"
	log=${log:-$(mktemp)}
	clusters=/etc/postgresql-common/createcluster.conf
	if [ ! -e "$policy" ]; then
		printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
		made_policy=yes
		as_root chmod 755 "$policy"
	fi
	if [ ! -e "$clusters" ]; then
		as_root mkdir -p "${clusters%/*}"
		echo 'create_main_cluster = false' | as_root tee "$clusters" >/dev/null
	fi
	if ! { as_root apt-get -q -o DPkg::Lock::Timeout=300 update &&
		as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 \
			-o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold \
			install --no-install-recommends "$@"; } >"$log" 2>&1 </dev/null; then
		tail -n 20 "$log" >&2
		fail "apt could not install $*; its last words are above"
	fi
	if have systemctl; then
		for package; do
			case $package in
			postgresql) as_root systemctl disable --quiet postgresql.service >/dev/null 2>&1 || true ;;
			caddy) as_root systemctl disable --quiet caddy.service >/dev/null 2>&1 || true ;;
			prometheus) as_root systemctl disable --quiet prometheus.service >/dev/null 2>&1 || true ;;
			redis-server) as_root systemctl disable --quiet redis-server.service >/dev/null 2>&1 || true ;;
			esac
		done
	fi
}

# install takes pairs of package names, apt's and Homebrew's.
install() {
	apt= brew=
	while [ $# -gt 0 ]; do
		apt="$apt $1" brew="$brew $2"
		shift 2
	done
	# The lists are words to be split: package names have no spaces.
	if have apt-get; then
		apt_install $apt
	elif have brew; then
		say "installing$brew with Homebrew"
		brew install --quiet $brew
	else
		fail "there is neither apt-get nor brew here. Install these yourself, then try again:$apt"
	fi
}

programs() {
	set --
	have_postgres || set -- "$@" postgresql postgresql@17
	have_redis || set -- "$@" redis-server redis
	have ffmpeg || set -- "$@" ffmpeg ffmpeg
	have node || set -- "$@" nodejs node
	have npm || set -- "$@" npm node
	if [ $# -gt 0 ]; then
		install "$@"
		say "done"
	fi
}

# chrome installs Google's package: Ubuntu's archive has Chromium as a snap only,
# which containers cannot run.
chrome() {
	have wget || apt_install wget ca-certificates
	say "fetching Google Chrome from dl.google.com, since Ubuntu's archive has no Chromium"
	download=$(mktemp -d)
	chmod 755 "$download"
	wget -q -O "$download/chrome.deb" https://dl.google.com/linux/direct/google-chrome-stable_current_amd64.deb ||
		fail "Google Chrome could not be fetched: install Chromium or Chrome yourself"
	apt_install "$download/chrome.deb"
	rm -rf "$download"
}

# browser is what only the tests need: Chromium, a C compiler for the race
# detector, ps to see processes with, curl for what the README says, Python for
# OpenAI's package, promtool, which comes with Prometheus, Caddy, the proxy of
# deploy/compose, systemd-analyze, which checks units, and ssh-keygen, which signs
# releases.
browser() {
	if have apt-get; then
		have pgrep || apt_install procps
		have curl || apt_install curl
		have gcc || have clang || apt_install gcc libc6-dev
		have systemd-analyze || apt_install systemd
		have ssh-keygen || apt_install openssh-client
	fi
	have_python || install python3-venv python
	have promtool || install prometheus prometheus
	have caddy || install caddy caddy
	if have_browser; then return; fi
	if have apt-get && grep -qs '^ID=ubuntu' /etc/os-release; then
		[ "$(dpkg --print-architecture)" = amd64 ] || fail "Ubuntu has no Chromium package for this machine: install Chromium yourself, such as with 'snap install chromium'"
		chrome
	elif have brew && ! have apt-get; then
		say "installing Chromium with Homebrew"
		brew install --quiet --cask chromium
	else
		install chromium chromium
	fi
	say "done"
}

# deb is what the test of the Debian packages needs: an empty Debian, and a container to boot it in.
deb() {
	have apt-get || fail "the Debian packages are tested on Debian or Ubuntu only"
	have debootstrap || apt_install debootstrap
	have systemd-nspawn || apt_install systemd-container
	have lintian || apt_install lintian
}

# images is what the test of the container images needs.
images() {
	have buildah || { have apt-get && apt_install buildah; } || fail "install buildah: the images are built with it"
	have_python || install python3-venv python
}

# kubernetes is the store of an API server of Kubernetes.
kubernetes() { have etcd || install etcd-server etcd; }

case ${1:-programs} in
programs) programs ;;
browser) browser ;;
deb) deb ;;
images) images ;;
kubernetes) kubernetes ;;
*) fail "usage: setup.sh [programs | browser | deb | images | kubernetes]" ;;
esac
