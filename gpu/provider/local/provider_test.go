package local_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/gpu/provider/local"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

var _ fleet.Preemptor = (*local.Provider)(nil)

// TestMain makes this binary the agent that the provider runs.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "agent" {
		agent(os.Args[2])
		return
	}
	testrun.Main(m.Run)
}

// agent has a child process, as a real agent has a runtime. A polite agent exits on
// SIGTERM, a stubborn one never does.
func agent(manners string) {
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	child := exec.Command("sleep", "1000")
	if err := child.Start(); err != nil {
		panic(err)
	}
	fmt.Println("arguments", os.Args[3:], "endpoint", os.Getenv("REELAY_ENDPOINT"), "key", os.Getenv("REELAY_API_KEY"))
	fmt.Println("child", child.Process.Pid)
	for {
		<-terminated
		switch manners {
		case "polite":
			return
		case "broken":
			os.Exit(3)
		}
	}
}

type exit struct {
	id  string
	err error
}

type fixture struct {
	*local.Provider
	dir   string
	exits chan exit
	pids  map[string]int // of the agents
}

var pool = &capacity.Pool{ID: "pol_1", PoolSpec: capacity.PoolSpec{
	Region: "local", GPUType: "none", CapacityClass: models.CapacitySpot, Models: []string{"testcard", "other"},
}}

func setup(t *testing.T, manners string) fixture {
	t.Helper()
	f := fixture{dir: t.TempDir(), exits: make(chan exit, 10), pids: map[string]int{}}
	self, err := os.Executable()
	require.NoError(t, err)
	f.Provider = local.New(local.Config{
		Command: []string{self, "agent", manners}, Endpoint: "http://here", Key: "rl_secret", Dir: f.dir, Grace: time.Second,
		Started: func(id string, pid int) { f.pids[id] = pid },
		Exited:  func(id string, err error) { f.exits <- exit{id, err} },
	})
	t.Cleanup(func() {
		for _, id := range running(f) {
			f.Delete(t.Context(), pool, []fleet.Instance{{ID: id}})
		}
	})
	return f
}

// create creates instances of the pool and returns the errors, by id.
func create(t *testing.T, p fleet.Provider, ids ...string) map[string]error {
	t.Helper()
	failed := map[string]error{}
	for i, result := range p.Create(t.Context(), pool, "request", ids) {
		require.Equal(t, ids[i], result.ID)
		if result.Err != nil {
			failed[result.ID] = result.Err
		}
	}
	return failed
}

func preempt(t *testing.T, p fleet.Preemptor, id string, notice time.Duration) error {
	t.Helper()
	return p.Preempt(t.Context(), pool, fleet.Instance{ID: id}, notice)
}

func kill(t *testing.T, p fleet.Provider, id string) {
	t.Helper()
	require.Empty(t, p.Delete(t.Context(), pool, []fleet.Instance{{ID: id}}))
}

// running returns the ids of the running instances, or none after the provider ended.
func running(p fleet.Provider) []string {
	all, _ := p.List(context.Background(), pool)
	ids := []string{}
	for _, i := range all {
		if i.State != fleet.InstanceEnded {
			ids = append(ids, i.ID)
		}
	}
	return ids
}

// boot creates an instance, waits for its child process and returns the child's id.
func (f fixture) boot(t *testing.T, id string) int {
	t.Helper()
	require.Empty(t, create(t, f, id))
	return f.childOf(t, id)
}

// childOf waits for the child process of an instance.
func (f fixture) childOf(t *testing.T, id string) int {
	t.Helper()
	var pid int
	testrun.Eventually(t, "the agent names its child", func() bool {
		_, after, found := bytes.Cut([]byte(f.log(id)), []byte("child "))
		if found && bytes.HasSuffix(after, []byte("\n")) {
			pid, _ = strconv.Atoi(strings.TrimSpace(string(after)))
		}
		return pid != 0
	})
	return pid
}

func (f fixture) log(id string) string {
	text, _ := os.ReadFile(filepath.Join(f.dir, "logs", "agent-"+id+".log"))
	return string(text)
}

func requireGone(t *testing.T, pid int) {
	t.Helper()
	testrun.Eventually(t, fmt.Sprintf("process %d must be gone", pid), func() bool {
		// an orphan that nobody has reaped yet has ended too
		out, _ := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
		state := strings.TrimSpace(string(out))
		return state == "" || strings.HasPrefix(state, "Z")
	})
}

func TestCreate(t *testing.T) {
	t.Parallel()

	t.Run("RunsAnAgentOfThePool", func(t *testing.T) {
		t.Parallel()
		f := setup(t, "polite")

		f.boot(t, "one")

		require.Contains(t, f.log("one"),
			"--provider local --instance-id one --pool pol_1 --region local --gpu-type none --capacity-class SPOT --models testcard,other")
		require.Contains(t, f.log("one"), "endpoint http://here key rl_secret")
		require.NotContains(t, strings.Split(f.log("one"), "endpoint")[0], "rl_secret", "the key must not be an argument")
		require.Equal(t, []string{"one"}, running(f))
	})

	t.Run("RefusesInvalidIDsAndThoseOfOtherPools", func(t *testing.T) {
		t.Parallel()
		f := setup(t, "polite")
		f.boot(t, "one")

		failed := create(t, f, "one", "../one", "two")
		taken := f.Create(t.Context(), &capacity.Pool{ID: "pol_2"}, "request", []string{"one"})

		require.Len(t, failed, 1, "creating an instance again does nothing")
		require.Equal(t, fleet.Invalid, fleet.ClassOf(taken[0].Err))
		require.ErrorContains(t, taken[0].Err, "an instance of another pool has this id")
		require.Equal(t, fleet.Invalid, fleet.ClassOf(failed["../one"]))
		require.ErrorContains(t, failed["../one"], "plain file name")
		require.Equal(t, []string{"one", "two"}, running(f))
	})

	t.Run("ReportsAnAgentThatFails", func(t *testing.T) {
		t.Parallel()
		f := setup(t, "broken")
		f.boot(t, "one")

		require.NoError(t, preempt(t, f, "one", time.Minute))

		got := <-f.exits
		require.Equal(t, "one", got.id)
		require.ErrorContains(t, got.err, "exit status 3")
		require.Empty(t, running(f))
	})
}

func TestPreempt(t *testing.T) {
	t.Parallel()

	t.Run("LetsAnAgentExitByItself", func(t *testing.T) {
		t.Parallel()
		f := setup(t, "polite")
		child := f.boot(t, "one")

		require.NoError(t, preempt(t, f, "one", time.Minute))

		require.Equal(t, exit{"one", nil}, <-f.exits)
		requireGone(t, child)
	})

	t.Run("KillsTheWholeGroupWhenTheNoticeEnds", func(t *testing.T) {
		t.Parallel()
		f := setup(t, "stubborn")
		child := f.boot(t, "one")
		began := time.Now()

		require.NoError(t, preempt(t, f, "one", 300*time.Millisecond))

		require.Equal(t, exit{"one", nil}, <-f.exits)
		require.GreaterOrEqual(t, time.Since(began), 300*time.Millisecond)
		requireGone(t, child)
	})

	t.Run("RefusesUnknownInstances", func(t *testing.T) {
		t.Parallel()
		f := setup(t, "polite")

		require.ErrorIs(t, preempt(t, f, "none", time.Second), fleet.ErrNoInstance)
		kill(t, f, "none")
	})
}

func TestKill(t *testing.T) {
	t.Parallel()

	t.Run("EndsTheWholeGroupAtOnce", func(t *testing.T) {
		t.Parallel()
		f := setup(t, "stubborn")
		child := f.boot(t, "one")

		kill(t, f, "one")

		require.Equal(t, exit{"one", nil}, <-f.exits)
		requireGone(t, child)
	})
}

func TestList(t *testing.T) {
	t.Parallel()

	t.Run("DistinguishesReclaimedFromCrashedInstances", func(t *testing.T) {
		t.Parallel()
		f := setup(t, "polite")
		for _, id := range []string{"preempted", "killed", "crashed", "running"} {
			f.boot(t, id)
		}

		require.NoError(t, preempt(t, f, "preempted", time.Minute))
		kill(t, f, "killed")
		require.NoError(t, syscall.Kill(f.pids["crashed"], syscall.SIGKILL))
		for range 3 {
			<-f.exits
		}

		all, err := f.List(t.Context(), pool)
		require.NoError(t, err)
		require.Len(t, all, 4)
		require.False(t, all[3].CreatedAt.IsZero())
		require.Regexp(t, `^its agent was killed: child \d+$`, all[0].Cause, "its last line")
		require.Equal(t, []fleet.Instance{
			{ID: "crashed", State: fleet.InstanceEnded, Cause: all[0].Cause},
			{ID: "killed", State: fleet.InstanceEnded, Reclaimed: true},
			{ID: "preempted", State: fleet.InstanceEnded, Reclaimed: true},
			{ID: "running", State: fleet.InstanceRunning, CreatedAt: all[3].CreatedAt},
		}, all)
	})
}

func TestClient(t *testing.T) {
	t.Parallel()

	// dial returns a client as another process would use it.
	dial := func(t *testing.T, f fixture) *local.Client {
		listener, err := net.Listen("unix", filepath.Join(f.dir, "socket"))
		require.NoError(t, err)
		ended := make(chan error, 1)
		go func() { ended <- local.Serve(listener, f.Provider) }()
		t.Cleanup(func() {
			require.NoError(t, listener.Close())
			require.NoError(t, <-ended)
		})
		return local.Dial(listener.Addr().String())
	}

	t.Run("StartsAndEndsInstances", func(t *testing.T) {
		t.Parallel()
		f := setup(t, "polite")
		c := dial(t, f)

		require.Empty(t, create(t, c, "one"))
		require.Equal(t, []string{"one"}, running(c))
		f.childOf(t, "one")
		require.NoError(t, preempt(t, c, "one", time.Minute))

		require.Equal(t, "one", (<-f.exits).id)
		all, err := c.List(t.Context(), pool)
		require.NoError(t, err)
		require.Equal(t, []fleet.Instance{{ID: "one", State: fleet.InstanceEnded, Reclaimed: true}}, all)
		require.Contains(t, f.log("one"), "--gpu-type none --capacity-class SPOT --models testcard,other")
	})

	t.Run("KeepsTheClassOfErrors", func(t *testing.T) {
		t.Parallel()
		f := setup(t, "polite")
		c := dial(t, f)
		over, end := context.WithCancel(t.Context())

		f.boot(t, "one")
		failed := create(t, c, "one", "../two")
		require.Len(t, failed, 1)
		require.Equal(t, fleet.Invalid, fleet.ClassOf(failed["../two"]))
		require.ErrorContains(t, failed["../two"], "plain file name")
		kill(t, f, "none")
		require.ErrorIs(t, preempt(t, c, "none", time.Second), fleet.ErrNoInstance)
		end()
		require.NoError(t, f.Run(over))
		_, err := c.List(t.Context(), pool)

		require.ErrorIs(t, err, fleet.ErrProviderGone)
		require.ErrorIs(t, create(t, c, "three")["three"], fleet.ErrProviderGone)
	})

	t.Run("ReportsAnUnreachableProvider", func(t *testing.T) {
		t.Parallel()

		c := local.Dial(filepath.Join(t.TempDir(), "socket"))

		_, err := c.List(t.Context(), pool)
		failed := create(t, c, "one", "two")

		require.ErrorContains(t, err, "reach the local provider")
		require.Len(t, failed, 2)
		require.ErrorContains(t, failed["two"], "reach the local provider")
	})
}

func TestLogs(t *testing.T) {
	t.Parallel()

	t.Run("AreKeptForTheNewestFifty", func(t *testing.T) {
		t.Parallel()
		f := setup(t, "polite")
		logs := filepath.Join(f.dir, "logs")
		require.NoError(t, os.Mkdir(logs, 0o700))
		old := time.Now().Add(-time.Hour)
		for i := range 60 {
			name := filepath.Join(logs, fmt.Sprintf("agent-old-%02d.log", i))
			require.NoError(t, os.WriteFile(name, nil, 0o600))
			require.NoError(t, os.Chtimes(name, old, old.Add(time.Duration(i)*time.Second)))
		}
		f.boot(t, "one")
		f.boot(t, "two")

		kill(t, f, "one")
		<-f.exits

		left, err := os.ReadDir(logs)
		require.NoError(t, err)
		require.Len(t, left, 51, "50 that have ended, and the one that runs")
		require.FileExists(t, filepath.Join(logs, "agent-two.log"))
		require.FileExists(t, filepath.Join(logs, "agent-one.log"))
		require.FileExists(t, filepath.Join(logs, "agent-old-59.log"))
		require.NoFileExists(t, filepath.Join(logs, "agent-old-10.log"))
	})
}

func TestRun(t *testing.T) {
	t.Parallel()

	t.Run("AsksInstancesToExitAndThenKillsThem", func(t *testing.T) {
		t.Parallel()
		polite, stubborn := setup(t, "polite"), setup(t, "stubborn")
		children := []int{polite.boot(t, "one"), polite.boot(t, "two"), stubborn.boot(t, "three")}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		go func() { ended <- polite.Run(ctx) }()
		go func() { ended <- stubborn.Run(ctx) }()

		stop()

		require.NoError(t, <-ended)
		require.NoError(t, <-ended)
		for _, child := range children {
			requireGone(t, child)
		}
		require.ErrorIs(t, create(t, polite, "four")["four"], fleet.ErrProviderGone)
		left := slices.Sorted(func(yield func(string) bool) {
			yield((<-polite.exits).id)
			yield((<-polite.exits).id)
		})
		require.Equal(t, []string{"one", "two"}, left)
	})
}
