package production

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// names stands for the DNS.
const names = `127.0.0.1 localhost
10.20.0.1 reelay.example.com
10.20.0.2 reelay.example.com
10.20.0.254 s3.example.com id.example.com ops.example.com acme-v02.api.letsencrypt.org
`

// network is a switch in a network namespace of its own, in which the world is, too. Nothing leads out of it.
type network struct {
	t      *testing.T
	prefix string // of the names of namespaces
}

func newNetwork(t *testing.T) *network {
	t.Helper()
	n := &network{t: t, prefix: fmt.Sprintf("reelay-%d-", os.Getpid())}
	n.namespace("world", names)
	n.ip("-n", n.prefix+"world", "link", "add", "switch", "type", "bridge")
	n.ip("-n", n.prefix+"world", "address", "add", addresses["world"]+"/24", "dev", "switch")
	n.ip("-n", n.prefix+"world", "link", "set", "switch", "up")
	return n
}

func (n *network) ip(args ...string) {
	n.t.Helper()
	said, err := exec.CommandContext(n.t.Context(), "ip", args...).CombinedOutput()
	require.NoError(n.t, err, "ip %s: %s", strings.Join(args, " "), said)
}

// namespace makes one, with a loopback device and names.
func (n *network) namespace(name, hosts string) (path string) {
	n.t.Helper()
	full := n.prefix + name
	n.ip("netns", "add", full)
	etc := filepath.Join("/etc/netns", full)
	n.t.Cleanup(func() {
		_ = exec.Command("ip", "netns", "delete", full).Run()
		_ = os.RemoveAll(etc)
	})
	n.ip("-n", full, "link", "set", "lo", "up")
	require.NoError(n.t, os.MkdirAll(etc, 0o755))
	require.NoError(n.t, os.WriteFile(filepath.Join(etc, "hosts"), []byte(hosts), 0o644))
	return filepath.Join("/run/netns", full)
}

// join makes the namespace of a machine and plugs it into the switch.
func (n *network) join(name string) (path string) {
	n.t.Helper()
	short := strings.ReplaceAll(name, " ", "-")
	path = n.namespace(short, names)
	n.ip("-n", n.prefix+"world", "link", "add", short, "type", "veth", "peer", "name", "eth0", "netns", n.prefix+short)
	n.ip("-n", n.prefix+"world", "link", "set", short, "master", "switch", "up")
	n.ip("-n", n.prefix+short, "address", "add", addresses[name]+"/24", "dev", "eth0")
	n.ip("-n", n.prefix+short, "link", "set", "eth0", "up")
	return path
}

// plug connects a machine with the switch, or not.
func (n *network) plug(name string, in bool) {
	n.t.Helper()
	n.ip("-n", n.prefix+"world", "link", "set", strings.ReplaceAll(name, " ", "-"), map[bool]string{true: "up", false: "down"}[in])
}

// command returns a command that runs in the world.
func (n *network) command(program string, args ...string) *exec.Cmd {
	n.t.Helper()
	return testrun.Command(n.t, "ip", append([]string{"netns", "exec", n.prefix + "world", program}, args...)...)
}

// inside does something in the world, in this process. A socket stays in the namespace in which it was made.
func (n *network) inside(do func() error) error {
	done := make(chan error)
	go func() {
		// The thread ends with this goroutine, so nothing else runs in that namespace.
		runtime.LockOSThread()
		file, err := os.Open(filepath.Join("/run/netns", n.prefix+"world"))
		if err != nil {
			done <- err
			return
		}
		defer file.Close()
		if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("enter the namespace of the world: %w", err)
			return
		}
		done <- do()
	}()
	return <-done
}

// listen listens in the world, for this process.
func (n *network) listen() (listener net.Listener) {
	n.t.Helper()
	require.NoError(n.t, n.inside(func() (err error) {
		listener, err = net.Listen("tcp", "127.0.0.1:0")
		return err
	}))
	return listener
}

// transport calls servers by their names in the network, and trusts an authority.
func (n *network) transport(t *testing.T, authority string) *http.Transport {
	t.Helper()
	certificate, err := os.ReadFile(authority)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(certificate))
	hosts := map[string]string{"reelay.example.com": addresses["one"], "id.example.com": addresses["world"]}
	return &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool},
		DialContext: func(_ context.Context, kind, address string) (c net.Conn, err error) {
			host, port, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			err = n.inside(func() (err error) {
				c, err = net.Dial(kind, net.JoinHostPort(hosts[host], port))
				return err
			})
			return c, err
		},
	}
}
