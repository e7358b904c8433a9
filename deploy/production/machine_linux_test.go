package production

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// debian is an empty Debian, in whose cache are packages.
type debian struct {
	folder string
}

// newDebian makes one in a temporary folder. If REELAY_DEBIAN_ROOT names a folder, it is made there once and used again.
func newDebian(t *testing.T, packages []string) *debian {
	t.Helper()
	d := &debian{os.Getenv("REELAY_DEBIAN_ROOT")}
	if d.folder == "" {
		d.folder = filepath.Join(t.TempDir(), "debian")
	}
	if _, err := os.Stat(filepath.Join(d.folder, "whole")); err == nil {
		return d
	}
	suite := os.Getenv("REELAY_DEBIAN_SUITE")
	if suite == "" {
		suite = "bookworm"
	}
	mirror := os.Getenv("REELAY_DEBIAN_MIRROR")
	if mirror == "" {
		mirror = "http://deb.debian.org/debian"
	}
	t.Log("making an empty Debian")
	// What a provider's image of Debian has, too.
	run(t, "debootstrap", "--variant=minbase", "--include=systemd,systemd-sysv,dbus,openssh-server,ca-certificates,curl,openssl,iproute2",
		suite, d.folder, mirror)
	resolver, err := os.ReadFile("/etc/resolv.conf")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(d.folder, "etc/resolv.conf"), resolver, 0o644))
	run(t, "systemd-nspawn", "--quiet", "--directory="+d.folder, "--register=no", "--keep-unit", "--resolv-conf=off", "sh", "-c",
		"apt-get -q update && apt-get -q -y --no-install-recommends --download-only install "+strings.Join(packages, " "))
	require.NoError(t, os.WriteFile(filepath.Join(d.folder, "etc/resolv.conf"), nil, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(d.folder, "whole"), nil, 0o644))
	return d
}

func run(t *testing.T, program string, args ...string) {
	t.Helper()
	said, err := testrun.Command(t, program, args...).CombinedOutput()
	require.NoError(t, err, "%s: %s", program, tail(said))
}

// logOf returns a file for what a program says, whose end is shown if the test fails.
func logOf(t *testing.T, name string) *os.File {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	t.Cleanup(func() {
		defer log.Close()
		if t.Failed() {
			_, _ = log.Seek(0, io.SeekStart)
			text, _ := io.ReadAll(log)
			t.Logf("%s: %s", name, tail(text))
		}
	})
	return log
}

// tail returns the end of what a program said.
func tail(said []byte) string { return string(said[max(0, len(said)-4000):]) }

// machine is a container of systemd with files of its own over those of Debian.
type machine struct {
	t         *testing.T
	name      string
	network   *network
	namespace string
	root      string
	keys      string        // folder of the key that opens it
	power     *os.File      // its plug, while it is on
	off       chan struct{} // closed when it is off again
}

// newMachine prepares a machine that is off.
func newMachine(t *testing.T, d *debian, n *network, name, keys string) *machine {
	t.Helper()
	folder := t.TempDir()
	m := &machine{t: t, name: name, network: n, namespace: n.join(name), root: filepath.Join(folder, "root"), keys: keys}
	for _, part := range []string{"root", "upper", "work"} {
		require.NoError(t, os.Mkdir(filepath.Join(folder, part), 0o755))
	}
	options := "lowerdir=" + d.folder + ",upperdir=" + filepath.Join(folder, "upper") + ",workdir=" + filepath.Join(folder, "work")
	require.NoError(t, syscall.Mount("overlay", m.root, "overlay", 0, options))
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(m.root, syscall.MNT_DETACH)) })

	public, err := os.ReadFile(filepath.Join(keys, "key.pub"))
	require.NoError(t, err)
	host := strings.ReplaceAll(name, " ", "-")
	m.write("etc/hostname", host+"\n", 0o644)
	m.write("etc/hosts", names+"127.0.1.1 "+host+"\n", 0o644) // as Debian's installer does
	m.write("root/.ssh/authorized_keys", string(public), 0o600)
	return m
}

// write writes a file of a machine.
func (m *machine) write(name, text string, mode os.FileMode) {
	m.t.Helper()
	path := filepath.Join(m.root, name)
	require.NoError(m.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(m.t, os.WriteFile(path, []byte(text), mode))
}

// boot switches a machine on, and waits until one can log in.
func (m *machine) boot() {
	m.t.Helper()
	log := logOf(m.t, m.name)
	end, held, err := os.Pipe()
	require.NoError(m.t, err)
	// Only SIGTERM ends the container together with systemd-nspawn, here by SIGKILL. It comes when the pipe is closed, also by
	// the end of this process.
	const until = `systemd-nspawn "$@" 3<&- & p=$!; (read -r line <&3; kill -s TERM $p) & exec 3<&-; wait $p`
	container := exec.Command("/bin/sh", "-c", until, "sh", "--quiet", "--directory="+m.root, "--register=no", "--keep-unit", "--resolv-conf=off",
		"--network-namespace-path="+m.namespace, "--hostname="+strings.ReplaceAll(m.name, " ", "-"), "--kill-signal=SIGKILL", "--boot")
	container.Stdout, container.Stderr, container.ExtraFiles = log, log, []*os.File{end}
	require.NoError(m.t, container.Start())
	end.Close()
	m.power = held
	off := make(chan struct{})
	m.off = off
	go func() {
		defer close(off)
		_ = container.Wait()
	}()
	m.network.plug(m.name, true)
	m.t.Cleanup(func() {
		_ = held.Close() // it may be off
		<-off
	})
	testrun.Eventually(m.t, m.name+" boots", func() bool {
		select {
		case <-off:
			m.t.Fatalf("%s did not boot", m.name)
		default:
		}
		return m.shell("true").Run() == nil
	})
}

// pullPlug switches a machine off as a power failure does.
func (m *machine) pullPlug() {
	m.t.Helper()
	m.network.plug(m.name, false)
	require.NoError(m.t, m.power.Close())
	<-m.off
}

// shell returns a command that runs commands as root on the machine.
func (m *machine) shell(script string) *exec.Cmd {
	m.t.Helper()
	cmd := m.network.command("ssh", "-i", filepath.Join(m.keys, "key"), "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
		"-o", "ConnectTimeout=5",
		"-o", "LogLevel=ERROR", "root@"+addresses[m.name], "bash -euo pipefail -s")
	cmd.Stdin = strings.NewReader(script)
	return cmd
}

// run runs commands on the machine and returns what they said.
func (m *machine) run(script string) string {
	m.t.Helper()
	said, err := m.try(script)
	require.NoError(m.t, err)
	return said
}

// try is run with an error.
func (m *machine) try(script string) (string, error) {
	said, err := m.shell(script).CombinedOutput()
	if err != nil {
		return string(said), fmt.Errorf("%w on %s:\n%s\n%s", err, m.name, script, tail(said))
	}
	return string(said), nil
}
