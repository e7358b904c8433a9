package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/internal/redisurl"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

func TestUp(t *testing.T) {
	t.Parallel()

	t.Run("FindsItsDataAgain", func(t *testing.T) {
		t.Parallel()

		data := dataDir(t)
		first, err := launch(data, "--agents", "1")
		require.NoError(t, err)
		t.Cleanup(first.end)
		id := submit(t, first.client(t), "what was, stays", 1, 0)
		done := until(t, first.client(t), id, completed)
		video := frames(t, first.client(t), done)
		first.end()

		second, err := launch(data, "--agents", "1")
		require.NoError(t, err)
		t.Cleanup(second.end)

		again, err := second.client(t).Job(t.Context(), id)
		require.NoError(t, err)
		require.True(t, completed(again))
		require.Equal(t, first.keys.ClientKey, second.keys.ClientKey)
		require.Equal(t, video, frames(t, second.client(t), again))
		for _, key := range []string{first.keys.OperatorKey, first.keys.ClientKey, first.keys.WorkerKey} {
			require.Contains(t, first.output(), key)
			require.NotContains(t, second.output(), key, "keys are shown only when they are created")
		}
		require.NotContains(t, first.output(), first.keys.AdminKey)
		until(t, second.client(t), submit(t, second.client(t), "after the restart", 1, 0), completed)
	})

	t.Run("SaysWhereOtherMachinesReachIt", func(t *testing.T) {
		t.Parallel()

		s := start(t, "--agents", "0", "--listen", "0.0.0.0:0")
		addresses, err := net.InterfaceAddrs()
		require.NoError(t, err)
		port := s.keys.Endpoint[strings.LastIndex(s.keys.Endpoint, ":"):]

		require.Contains(t, s.keys.Endpoint, "http://127.0.0.1:")
		for _, each := range addresses {
			at := each.(*net.IPNet).IP
			if at.To4() == nil || at.IsLoopback() {
				continue
			}
			testrun.Eventually(t, "it says so", func() bool {
				return strings.Contains(s.output(), "also at   http://"+at.String()+port) && strings.Contains(s.output(), "Set REELAY_PUBLIC_URL")
			})
			answer, err := http.Get("http://" + at.String() + port + "/readyz")
			require.NoError(t, err)
			answer.Body.Close()
			require.Equal(t, http.StatusOK, answer.StatusCode)
		}
	})

	t.Run("LetsNoURLOfACustomerReachItsOwnPorts", func(t *testing.T) {
		t.Parallel()

		s := common(t)
		text, err := os.ReadFile(filepath.Join(s.data, "stores.json"))
		require.NoError(t, err)
		var stores struct{ RedisURL, EmulatorHost, Store string }
		require.NoError(t, json.Unmarshal(text, &stores))
		objects, path := stores.EmulatorHost, "/storage/v1/b/reelay/o"
		if onS3() {
			bucket, err := url.Parse(stores.Store)
			require.NoError(t, err)
			objects, path = bucket.Query().Get("endpoint"), "/reelay/"
		}

		redis, err := redisurl.Parse(stores.RedisURL)
		require.NoError(t, err)
		for _, own := range []string{objects, "redis://" + redis.Hosts[0], s.keys.Endpoint} {
			at, err := url.Parse(own)
			require.NoError(t, err)
			at.Scheme, at.User, at.Path = "http", nil, "/upload/storage/v1/b/reelay/o"

			_, err = s.client(t).CreateWebhookEndpoint(t.Context(), at.String(), client.WebhookFormatStandard, nil)

			require.ErrorContains(t, err, "leads to Reelay itself", at.Host)
		}
		store, err := url.Parse(objects)
		require.NoError(t, err)
		answer, err := http.Get("http://" + store.Host + path)
		require.NoError(t, err)
		answer.Body.Close()
		require.Contains(t, []int{http.StatusUnauthorized, http.StatusForbidden}, answer.StatusCode, "the store must require its secret")
	})

	t.Run("KeepsItsKeysToItself", func(t *testing.T) {
		t.Parallel()

		info, err := os.Stat(filepath.Join(common(t).data, "credentials.json"))

		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	})

	for name, signal := range map[string]syscall.Signal{"InterruptEndsEveryProcess": syscall.SIGINT, "KillEndsEveryProcess": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s := start(t, "--agents", "2")
			until(t, s.client(t), submit(t, s.client(t), "caught in the act", 5, 10), beyond(1, 1))
			family := descendants(s.Pid())
			require.GreaterOrEqual(t, len(family), 5, "PostgreSQL, Redis, two agents and a runtime at least")

			require.NoError(t, syscall.Kill(s.Pid(), signal))

			testrun.Eventually(t, "every process has ended", func() bool {
				for _, pid := range family {
					if alive(pid) {
						return false
					}
				}
				return true
			})
		})
	}

	t.Run("SaysWhatIsWrong", func(t *testing.T) {
		t.Parallel()

		taken, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { taken.Close() })
		file := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(file, nil, 0o600))

		for _, wrong := range []struct {
			args, env []string
			says      string
		}{
			{[]string{"--listen", taken.Addr().String()}, nil, taken.Addr().String()},
			{[]string{"--listen", "nowhere"}, nil, `REELAY_LISTEN (--listen) is "nowhere": it must be`},
			{[]string{"--data", filepath.Join(file, "data")}, nil, filepath.Join(file, "data")},
			{[]string{"--api", "0"}, nil, "--api is 0: it must be from 1 to 16"},
			{[]string{"--control", "17"}, nil, "--control is 17: it must be from 1 to 16"},
			{[]string{"--agents", "-1"}, nil, "--agents is -1: it must be from 0 to 64"},
			{[]string{"--agents", "2", "--agents-max", "1"}, nil, "--agents-max is 1"},
			{nil, []string{"REELAY_LOG=loud"}, `REELAY_LOG is "loud": it must be text or json`},
			{nil, []string{"DATABASE_URL=mysql://secret@host"}, "DATABASE_URL is malformed"},
			{nil, []string{"REDIS_URL=localhost"}, "REDIS_URL is malformed"},
			{nil, []string{"REELAY_DATABASE_CONNECTIONS=1"}, "REELAY_DATABASE_CONNECTIONS"},
			{[]string{"--agentz"}, nil, "unknown flag"},
		} {
			t.Run(wrong.says, func(t *testing.T) {
				t.Parallel()

				args := append([]string{"up", "--listen", "127.0.0.1:0", "--data", dataDir(t)}, wrong.args...)
				cmd := testrun.Command(t, reelay, args...)
				cmd.Env = append(os.Environ(), wrong.env...)
				out, err := cmd.CombinedOutput()

				require.Error(t, err)
				require.Contains(t, string(out), wrong.says)
				require.NotContains(t, string(out), "secret")
			})
		}
	})

	t.Run("LeavesNothingBehindWhenThePortIsTaken", func(t *testing.T) {
		t.Parallel()

		taken, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { taken.Close() })
		data := filepath.Join(dataDir(t), "data")

		require.Error(t, testrun.Command(t, reelay, "up", "--listen", taken.Addr().String(), "--data", data).Run())

		require.NoDirExists(t, data)
	})

	t.Run("RefusesAFolderThatIsInUse", func(t *testing.T) {
		t.Parallel()

		s := common(t)
		out, err := testrun.Command(t, reelay, "up", "--listen", "127.0.0.1:0", "--data", s.data).CombinedOutput()

		require.Error(t, err)
		require.Contains(t, string(out), fmt.Sprint(s.Pid()))
	})
}

// descendants returns the descendants of a process.
func descendants(root int) []int {
	out, _ := exec.Command("ps", "-e", "-o", "pid=,ppid=").Output()
	children := map[int][]int{}
	for _, line := range strings.Split(string(out), "\n") {
		if f := strings.Fields(line); len(f) == 2 {
			pid, _ := strconv.Atoi(f[0])
			parent, _ := strconv.Atoi(f[1])
			children[parent] = append(children[parent], pid)
		}
	}
	var all []int
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		all = append(all, children[queue[0]]...)
		queue = append(queue, children[queue[0]]...)
	}
	return all
}

// alive reports whether a process runs. A zombie does not.
func alive(pid int) bool {
	out, _ := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	state := strings.TrimSpace(string(out))
	return state != "" && !strings.HasPrefix(state, "Z")
}
