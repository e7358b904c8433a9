package compose

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// docker stands for Docker Compose: it has the services started by the test, runs programs in the environment of a
// service, and copies files of the proxy.
const docker = `#!/bin/sh
set -eu
shift
profile=
while [ $# -gt 0 ]; do
	case $1 in
	-f) shift 2 ;;
	--profile) profile=$2 && shift 2 ;;
	up | run)
		verb=$1 && shift
		while [ $# -gt 0 ]; do
			case $1 in -*) shift ;; *) profile="$profile,$1" && shift ;; esac
		done
		curl -fsS -X POST "$TEST_SERVER/$verb?services=$profile"
		# The first health check of a container comes after 5 seconds. The proxy needs one of them.
		[ "$verb" = run ] || sleep 5
		exit
		;;
	cp) exec cp "$TEST_DATA/${2#proxy:/data/}" "$3" ;;
	exec) shift && break ;;
	*) echo "docker: $1?" >&2 && exit 1 ;;
	esac
done
while :; do
	case $1 in
	-T) shift ;;
	-e) case $2 in *=*) export "$(echo "$2" | sed "s/127.0.0.1:8080/$TEST_API/")" ;; esac; shift 2 ;;
	*) break ;;
	esac
done
. "$TEST_DATA/$1.env"
shift
exec "$@"
`

// onMachine writes the programs that a page calls and that are not there.
func (m *machine) onMachine(up http.HandlerFunc) []string {
	m.t.Helper()
	server := httptest.NewServer(up)
	m.t.Cleanup(server.Close)
	tools := m.t.TempDir()
	testrun.WriteProgram(m.t, filepath.Join(tools, "docker"), docker)
	if os.Getuid() != 0 {
		testrun.WriteProgram(m.t, filepath.Join(tools, "chown"), "#!/bin/sh\n")
	}
	return append(os.Environ(), "PATH="+tools+":"+m.bin+":"+os.Getenv("PATH"), "REELAY="+filepath.Join(m.bin, "reelay"),
		"TEST_SERVER="+server.URL, "TEST_DATA="+m.data, "TEST_API="+m.hosts["api-1:8080"], "HOME="+m.data)
}

// describe writes the environment of a service for docker.
func (m *machine) describe(name string) {
	m.t.Helper()
	var text strings.Builder
	for _, setting := range m.environment(name) {
		key, value, _ := strings.Cut(setting, "=")
		text.WriteString("export " + key + "='" + value + "'\n")
	}
	require.NoError(m.t, os.WriteFile(filepath.Join(m.data, name+".env"), []byte(text.String()), 0o600))
}

// up starts the services that are named, and ends those of them that run: "" is all of them, "agents" the profile.
func (m *machine) up(services string) {
	switch services {
	case "":
		m.first()
	case "agents", "agents,agent":
		m.agents()
	default:
		for name := range strings.FieldsSeq(strings.ReplaceAll(services, ",", " ")) {
			m.end(name)
			// Meanwhile, the other process of the two has to do all of it.
			calls := m.calls.Load()
			testrun.Eventually(m.t, "more calls", func() bool { return m.calls.Load() > calls+20 })
			m.start(name, nil, nil)
			m.healthy(name, "http://"+m.hosts[name+":8080"]+"/readyz")
		}
	}
}

// agents starts the agents. Each container has files of its own; the port of the probes is that of the image.
func (m *machine) agents() {
	m.end("agent")
	for range *m.project.Services["agent"].Deploy.Replicas {
		probes := "127.0.0.1:" + testrun.FreePort(m.t)
		m.start("agent", nil, []string{"REELAY_AGENT_WORK_DIR=" + m.t.TempDir(), "REELAY_AGENT_HEALTH=" + probes})
		m.healthy("agent", "http://"+probes+"/readyz")
	}
}

// first starts the services in the order in which they wait for each other.
func (m *machine) first() {
	m.postgres()
	m.secrets()
	_, port, _ := strings.Cut(m.hosts["redis:6379"], ":")
	m.start("redis", []string{"--bind", "127.0.0.1", "--port", port}, nil)
	m.start("objects", nil, nil)
	require.NoError(m.t, m.start("migrate", nil, nil).Wait())
	for _, name := range []string{"api-1", "api-2", "control-1", "control-2"} {
		m.describe(name)
		m.start(name, nil, nil)
	}
	for _, name := range []string{"api-1", "api-2"} {
		m.healthy(name, "http://"+m.hosts[name+":8080"]+"/readyz")
	}
	for _, name := range []string{"control-1", "control-2"} {
		m.healthy(name, "")
	}
	m.proxy()
	m.healthy("api-1", "http://"+m.hosts["proxy:8080"]+"/readyz") // through the proxy
}

// commands returns the first commands in a section of the page.
func (m *machine) commands(section string) string {
	m.t.Helper()
	page, err := os.ReadFile("../../docs/operators/compose.md")
	require.NoError(m.t, err)
	block := regexp.MustCompile("(?s)## " + section + "\n.*?```sh\n(.*?)```").FindStringSubmatch(string(page))
	require.NotNil(m.t, block)
	return strings.ReplaceAll(block[1], "https://localhost", m.hosts["https://localhost"])
}

// TestPage runs the commands of docs/operators/compose.md for one machine: the first video, and an upgrade.
func TestPage(t *testing.T) {
	t.Parallel()
	m := newMachine(t, "single.yaml")
	env := m.onMachine(func(_ http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/up":
			m.up(r.URL.Query().Get("services"))
		case "/run":
			require.Equal(t, ",migrate", r.URL.Query().Get("services"))
			require.NoError(t, m.start("migrate", nil, nil).Wait())
		}
	})
	run := func(section string) string {
		shell := testrun.Command(t, "sh", "-eu", "-c", m.commands(section))
		shell.Dir, shell.Env = m.folder, env
		said, err := shell.CombinedOutput()
		require.NoError(t, err, string(said))
		return string(said)
	}

	said := run("One machine")
	require.NotContains(t, said, "BROKEN")
	require.Regexp(t, `\d+ checks: `, said)
	video, err := os.Stat(filepath.Join(m.folder, "first.mp4"))
	require.NoError(t, err)
	require.Greater(t, video.Size(), int64(1000))
	m.requireClosed()

	calls := m.callWhile(func() { run("Upgrade") })
	require.Greater(t, calls.good, 100)
	require.Empty(t, calls.bad, "a call failed during the upgrade")
}

// requireClosed checks that the proxy hides metrics, and that only one user can read the secrets.
func (m *machine) requireClosed() {
	m.t.Helper()
	for _, c := range []struct {
		address, host string
		status        int
	}{
		// Prometheus calls them by the names of the file.
		{"api-1:8080", "api-1:8080", http.StatusOK}, {"api-2:8080", "api-2:8080", http.StatusOK},
		{"control-1:9090", "control-1:9090", http.StatusOK}, {"control-2:9090", "control-2:9090", http.StatusOK},
		{"proxy:8080", "", http.StatusNotFound},
	} {
		request, err := http.NewRequestWithContext(m.t.Context(), http.MethodGet, "http://"+m.hosts[c.address]+"/metrics", nil)
		require.NoError(m.t, err)
		request.Host = c.host
		answer, err := http.DefaultClient.Do(request)
		require.NoError(m.t, err)
		answer.Body.Close()
		require.Equal(m.t, c.status, answer.StatusCode, c.address)
	}
	info, err := os.Stat(filepath.Join(m.folder, "secrets"))
	require.NoError(m.t, err)
	require.Equal(m.t, os.FileMode(0o700), info.Mode().Perm())
}

type calls struct {
	good int
	bad  []string
}

// callWhile calls the API through the proxy, one call after the other, until do is done.
func (m *machine) callWhile(do func()) (all calls) {
	m.t.Helper()
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
			}
			answer, err := http.Get("http://" + m.hosts["proxy:8080"] + "/healthz")
			if err == nil {
				_, err = io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
			}
			m.calls.Add(1)
			if err == nil && answer.StatusCode == http.StatusOK {
				all.good++
			} else {
				all.bad = append(all.bad, fmt.Sprint(err, answer), time.Now().String())
			}
		}
	}()
	do()
	close(stop)
	<-ended
	return all
}
