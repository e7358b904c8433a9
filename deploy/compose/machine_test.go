package compose

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/reelay/reelay/internal/faultproxy"
	"github.com/reelay/reelay/internal/localstack"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// machine runs the services of a project as processes, without containers. Each has the environment and
// the command of the file; names of hosts and paths of containers are replaced.
type machine struct {
	t       *testing.T
	project project
	folder  string            // a copy of this folder, with the secrets
	bin     string            // folder of the programs
	data    string            // folder of what containers write to
	hosts   map[string]string // addresses, by those of the file
	calls   atomic.Int64      // of callWhile
	mu      sync.Mutex
	running map[string][]*exec.Cmd // by service
}

// programs are built once.
var programs = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "programs-")
	if err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", folder, "./cmd/reelay", "./cmd/reelay-agent")
	build.Dir = "../.."
	if said, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, said)
	}
	return folder, nil
})

// newMachine prepares a machine that runs the project in a file of this folder.
func newMachine(t *testing.T, file string) *machine {
	t.Helper()
	bin, err := programs()
	require.NoError(t, err)
	m := &machine{t: t, project: load(t, file), folder: t.TempDir(), bin: bin, data: t.TempDir(), running: map[string][]*exec.Cmd{}}
	require.NoError(t, os.CopyFS(m.folder, os.DirFS(".")))
	m.hosts = map[string]string{"https://localhost": "https://localhost:" + testrun.FreePort(t)}
	for address := range strings.FieldsSeq("redis:6379 objects:7070 api-1:8080 api-2:8080 control-1:9090 control-2:9090 proxy:8080") {
		m.hosts[address] = "127.0.0.1:" + testrun.FreePort(t)
	}
	return m
}

// here replaces what only containers have in a text of a service.
func (m *machine) here(name, text string) string {
	pairs := []string{"/run/secrets/", filepath.Join(m.folder, "secrets") + "/", "/usr/bin/reelay", filepath.Join(m.bin, "reelay")}
	for from, to := range m.hosts {
		pairs = append(pairs, from, to)
		// The address at which this service listens.
		if port, own := strings.CutPrefix(from, name+":"); own {
			pairs = append(pairs, "0.0.0.0:"+port, to, "127.0.0.1:"+port, to, "--port :"+port, "--port "+to)
		}
	}
	if name == "objects" {
		pairs = append(pairs, "/data", m.data)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// environment returns that of a service, and nothing of this process but the PATH.
func (m *machine) environment(name string) []string {
	path := m.bin + string(os.PathListSeparator) + os.Getenv("PATH")
	env := []string{"PATH=" + path, "HOME=" + m.data, "TMPDIR=" + os.TempDir()}
	for setting, value := range m.project.Services[name].Environment {
		env = append(env, setting+"="+m.here(name, value))
	}
	slices.Sort(env)
	return env
}

// start starts a process of a service, with more arguments and settings. It ends with the test.
func (m *machine) start(name string, args, env []string) *exec.Cmd {
	m.t.Helper()
	s := m.project.Services[name]
	command := append(slices.Clone(s.Entrypoint), s.Command...)
	if strings.HasPrefix(s.Image, "reelay:") {
		command = append([]string{"reelay"}, command...)
	}
	if strings.HasPrefix(s.Image, "reelay-agent:") {
		command = append([]string{"reelay-agent"}, command...)
	}
	for i := range command {
		command[i] = m.here(name, command[i])
	}
	program := command[0]
	if strings.HasPrefix(program, "reelay") {
		program = filepath.Join(m.bin, program)
	}
	cmd := testrun.Command(m.t, program, append(command[1:], args...)...)
	cmd.Dir, cmd.Env = m.data, append(m.environment(name), env...)
	log, err := os.Create(filepath.Join(m.t.TempDir(), "log"))
	require.NoError(m.t, err)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(m.t, cmd.Start(), name)
	m.t.Cleanup(func() {
		defer log.Close()
		if m.t.Failed() {
			_, _ = log.Seek(0, io.SeekStart)
			text, _ := io.ReadAll(log)
			m.t.Logf("%s:\n%s", name, text)
		}
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running[name] = append(m.running[name], cmd)
	return cmd
}

// end stops the processes of a service as Docker does.
func (m *machine) end(name string) {
	m.t.Helper()
	m.mu.Lock()
	running := m.running[name]
	delete(m.running, name)
	m.mu.Unlock()
	for _, cmd := range running {
		require.NoError(m.t, cmd.Process.Signal(syscall.SIGTERM), "%s runs", name)
		require.NoError(m.t, cmd.Wait(), "%s stops by itself", name)
	}
}

// healthy waits until the health check of a service succeeds: that of the file, or the one of the image.
func (m *machine) healthy(name, usual string) {
	m.t.Helper()
	check := []string{"CMD", "reelay", "healthcheck", usual}
	if own := m.project.Services[name].HealthCheck; own != nil {
		check = own.Test
	}
	check = slices.Clone(check[1:])
	for i := range check {
		check[i] = m.here(name, check[i])
	}
	check[0] = filepath.Join(m.bin, filepath.Base(check[0]))
	testrun.Eventually(m.t, name+" is healthy", func() bool {
		cmd := exec.CommandContext(m.t.Context(), check[0], check[1:]...)
		cmd.Env = m.environment(name)
		return cmd.Run() == nil
	})
}

// postgres starts a PostgreSQL. Its image cannot be had: of the service it only has the address.
func (m *machine) postgres() {
	m.t.Helper()
	server, err := localstack.StartPostgres(m.t.Context(), localstack.PostgresConfig{Dir: publicFolder(m.t)})
	require.NoError(m.t, err)
	m.t.Cleanup(func() { _ = server.Stop(context.WithoutCancel(m.t.Context())) })
	socket, err := url.Parse(server.DSN())
	require.NoError(m.t, err)
	query := socket.Query()
	m.hosts["postgres:5432"] = faultproxy.New(m.t, "unix", query.Get("host")+"/.s.PGSQL."+query.Get("port")).Addr()
}

// publicFolder returns a folder that another user may enter: PostgreSQL does not run as root.
func publicFolder(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "postgres-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(folder, 0o711))
	t.Cleanup(func() { os.RemoveAll(folder) })
	return folder
}

// proxy starts Caddy with the file of the service. It gets other ports, and an authority of its own.
func (m *machine) proxy() {
	m.t.Helper()
	text, err := os.ReadFile(filepath.Join(m.folder, "config/Caddyfile"))
	require.NoError(m.t, err)
	ours := strings.Replace(m.here("proxy", string(text)), "skip_install_trust",
		"skip_install_trust\n\thttp_port "+testrun.FreePort(m.t)+"\n\tadmin 127.0.0.1:"+testrun.FreePort(m.t), 1)
	file := filepath.Join(m.data, "Caddyfile")
	require.NoError(m.t, os.WriteFile(file, []byte(ours), 0o600))
	cmd := testrun.Command(m.t, "caddy", "run", "--config", file)
	_, port, _ := strings.Cut(m.hosts["https://localhost"], "localhost:")
	cmd.Env = append(m.environment("proxy"), "REELAY_DOMAIN=localhost:"+port, "XDG_DATA_HOME="+m.data, "XDG_CONFIG_HOME="+m.data)
	log := &strings.Builder{}
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(m.t, cmd.Start(), "caddy comes with go tool task setup:browser")
	m.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGKILL)
		_ = cmd.Wait()
		if m.t.Failed() {
			m.t.Log(log)
		}
	})
}

// secrets replaces the host names in the secrets that are addresses.
func (m *machine) secrets() {
	m.t.Helper()
	for _, name := range []string{"database_url", "redis_url"} {
		path := filepath.Join(m.folder, "secrets", name)
		text, err := os.ReadFile(path)
		require.NoError(m.t, err)
		require.NoError(m.t, os.Remove(path))
		require.NoError(m.t, os.WriteFile(path, []byte(m.here("", string(text))), 0o400))
	}
}
