package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/internal/redisurl"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// processes returns the ids of a stack's processes by name.
func (s *stack) processes(t *testing.T) map[string]int {
	t.Helper()
	var pids map[string]int
	text, err := os.ReadFile(filepath.Join(s.data, "processes.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &pids))
	return pids
}

// kill signals a process and returns when its replacement runs.
func (s *stack) kill(t *testing.T, name string, signal syscall.Signal) {
	t.Helper()
	if name == "redis" && s.redis != nil {
		failOver(t, s.redis)
		return
	}
	pid := s.processes(t)[name]
	require.NotZero(t, pid, name)
	require.NoError(t, syscall.Kill(pid, signal))
	testrun.Eventually(t, name+" runs again", func() bool { return s.processes(t)[name] != pid })
}

// flush empties the stack's Redis, whose password its processes know.
func (s *stack) flush(t *testing.T) {
	t.Helper()
	environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", s.processes(t)["api-1"]))
	if err != nil {
		t.Skip("this system does not show a process's environment")
	}
	for variable := range strings.SplitSeq(string(environment), "\x00") {
		if address, ok := strings.CutPrefix(variable, "REDIS_URL="); ok {
			at, err := redisurl.Parse(address)
			require.NoError(t, err)
			store := at.Open(time.Second)
			defer store.Close()
			testrun.Eventually(t, "Redis takes FLUSHALL", func() bool { return store.FlushAll(t.Context()).Err() == nil })
		}
	}
}

// crowd submits jobs and follows each to its end, until it is stopped.
type crowd struct {
	stop    chan struct{}
	members sync.WaitGroup

	mu           sync.Mutex
	acknowledged int
	wrong        []string
}

func (c *crowd) fault(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
}

// member submits one job after another. It repeats every submit under the same key, whether
// the answer arrived or not.
func (c *crowd) member(ctx context.Context, api *client.Client, name int) {
	for n := 0; ; n++ {
		select {
		case <-c.stop:
			return
		case <-ctx.Done():
			return
		default:
		}
		key := fmt.Sprintf("member-%d-%d", name, n)
		first, again := c.submit(ctx, api, key), c.submit(ctx, api, key)
		if first != again {
			c.fault("key %s gave %s, then %s", key, first, again)
		}
		c.mu.Lock()
		c.acknowledged++
		c.mu.Unlock()
		c.follow(ctx, api, first)
	}
}

func (c *crowd) submit(ctx context.Context, api *client.Client, key string) string {
	ctx, cancel := context.WithTimeout(ctx, testrun.WaitLimit)
	defer cancel()
	params := json.RawMessage(`{"durationSeconds": 1, "fps": 6, "pace": 0}`)
	for ctx.Err() == nil {
		done, err := api.SubmitJob(ctx, client.SubmitJobInput{Model: "testcard", Prompt: new("one of a crowd"), Params: &params,
			IdempotencyKey: &key})
		if err == nil {
			return done.Job.Id
		}
		if client.ErrorCode(err) != client.CodeUnavailable {
			c.fault("submit %s: %v", key, err)
			return ""
		}
		time.Sleep(50 * time.Millisecond) // a client pauses before it retries
	}
	return ""
}

// follow watches a job to its end. The watcher must receive the end, whichever process served
// the beginning.
func (c *crowd) follow(ctx context.Context, api *client.Client, id string) {
	ctx, cancel := context.WithTimeout(ctx, testrun.WaitLimit)
	defer cancel()
	var last *client.Job
	for job, err := range api.WatchJob(ctx, id, 50*time.Millisecond) {
		if err == nil {
			last = job
		} else if client.ErrorCode(err) != client.CodeUnavailable {
			c.fault("watch %s: %v", id, err)
		}
	}
	if last == nil || last.Status != client.JobStatusCompleted {
		c.fault("job %s was last seen as %+v", id, last)
	}
}

func TestProcesses(t *testing.T) {
	t.Parallel()

	t.Run("MayBeKilledAtAnyTime", func(t *testing.T) {
		t.Parallel()

		s := start(t, "--api", "3", "--control", "3", "--agents", "2")
		ctx := t.Context()
		everySecond := s.schedule(t)
		slots := map[time.Time]client.ScheduleSlot{}
		c := &crowd{stop: make(chan struct{})}
		members := 2 // enough to keep both agents busy
		if testrun.Nightly() {
			members = 4
		}
		for name := range members {
			c.members.Go(func() { c.member(ctx, s.client(t), name) })
		}
		for _, fault := range []struct {
			name   string
			signal syscall.Signal
		}{
			{"api-1", syscall.SIGTERM}, {"api-2", syscall.SIGKILL}, {"control-1", syscall.SIGKILL},
			{"postgres", syscall.SIGQUIT}, {"api-3", syscall.SIGKILL}, {"control-2", syscall.SIGKILL}, {"redis", syscall.SIGKILL},
			{"store", syscall.SIGKILL}, {"control-3", syscall.SIGKILL}, {"control-2", syscall.SIGTERM}, {"api-1", syscall.SIGKILL},
		} {
			s.kill(t, fault.name, fault.signal)
			c.follow(ctx, s.client(t), c.submit(ctx, s.client(t), "after "+fault.name+" "+fault.signal.String()))
			s.readSlots(t, everySecond, slots)
		}
		s.flush(t)
		c.follow(ctx, s.client(t), c.submit(ctx, s.client(t), "after FLUSHALL"))
		close(c.stop)
		c.members.Wait()

		require.Empty(t, c.wrong)
		require.Greater(t, c.acknowledged, 4)
		s.requireEachSecond(t, everySecond, slots)
		for _, api := range []string{"api-1", "api-2", "api-3"} {
			s.preemptThrough(t, api)
		}
	})
}

// schedule makes a schedule that fires each second, and returns its id.
func (s *stack) schedule(t *testing.T) string {
	t.Helper()
	params := json.RawMessage(`{"durationSeconds": 1, "fps": 6, "pace": 0}`)
	made, err := s.client(t).ApplySchedule(t.Context(), client.ScheduleInput{
		Name: "each second", EverySeconds: new(1), CatchUp: new(client.CatchUpAll),
		Job: &client.SubmitJobInput{Model: "testcard", Prompt: new("one of each second"), Params: &params, Tier: new(client.TierBatch)},
	})
	require.NoError(t, err)
	return made.Id
}

// readSlots adds the newest slots of a schedule to those that were read before, as they are now. It
// fails if so many were added meanwhile that one call does not show them all.
func (s *stack) readSlots(t *testing.T, id string, slots map[time.Time]client.ScheduleSlot) {
	t.Helper()
	const most = 200
	api, known := s.client(t), len(slots) == 0
	var got []client.ScheduleSlot
	testrun.Eventually(t, "the schedule can be read", func() bool {
		seen, err := api.Schedule(t.Context(), id, most, 1)
		if err == nil {
			got = seen.Slots
		}
		return err == nil
	})
	for _, slot := range got {
		_, again := slots[slot.At]
		known = known || again
		slots[slot.At] = slot
	}
	require.True(t, known, "more than %d slots since the last look", most)
}

// requireEachSecond waits until the schedule has fired up to now, and stops it. It fails unless each
// second has one job, and there is no other. It adds to slots, which were read on the way.
func (s *stack) requireEachSecond(t *testing.T, id string, slots map[time.Time]client.ScheduleSlot) {
	t.Helper()
	ctx, api, until := t.Context(), s.client(t), time.Now()
	settled := func(later bool) func() bool {
		return func() bool {
			s.readSlots(t, id, slots)
			reached := !later
			for _, slot := range slots {
				after := slot.At.After(until)
				reached = reached || after
				if slot.State == client.SlotStatePending && !(later && after) {
					return false
				}
			}
			return reached
		}
	}
	testrun.Eventually(t, "all seconds up to now have fired", settled(true))
	_, err := api.PauseSchedule(ctx, id, "the test ends")
	require.NoError(t, err)
	testrun.Eventually(t, "no slot waits", settled(false))

	jobs := map[string]bool{}
	times := slices.SortedFunc(maps.Keys(slots), time.Time.Compare)
	for n, at := range times {
		if n > 0 {
			require.Equal(t, time.Second, at.Sub(times[n-1]), "a second is left out")
		}
		slot := slots[at]
		if slot.State != client.SlotStateFired {
			require.True(t, at.After(until), "%s: %v", at, slot.Reason)
			continue // it met the pause
		}
		require.False(t, jobs[slot.Job.Id], "two seconds have one job")
		jobs[slot.Job.Id] = true
	}
	all, err := api.Jobs(ctx, client.JobFilter{Tier: []client.Tier{client.TierBatch}}, 1, "")
	require.NoError(t, err)
	require.Equal(t, len(jobs), all.TotalCount, "only the schedule submits to this lane")
	t.Logf("%d seconds have one job each", len(jobs))
}

// preemptThrough preempts a worker by a call that only one of three apis can serve, since the
// others are stopped meanwhile.
func (s *stack) preemptThrough(t *testing.T, api string) {
	t.Helper()
	idle := ""
	testrun.Eventually(t, "a worker is idle", func() bool {
		workers, err := s.operator(t).Workers(t.Context(), client.WorkerFilter{}, 100, "")
		require.NoError(t, err)
		for _, edge := range workers.Edges {
			if edge.Node.Status == client.WorkerStatusIdle {
				idle = edge.Node.Id
			}
		}
		return idle != ""
	})
	pids := s.processes(t)
	for _, other := range []string{"api-1", "api-2", "api-3"} {
		if other != api {
			require.NoError(t, syscall.Kill(pids[other], syscall.SIGSTOP))
			defer syscall.Kill(pids[other], syscall.SIGCONT)
		}
	}
	operator, err := client.New(s.keys.Endpoint, s.keys.OperatorKey, client.WithTransport(&http.Transport{DisableKeepAlives: true}))
	require.NoError(t, err)

	// A stopped api may hold a row lock until PostgreSQL ends its idle transaction after ten
	// seconds.
	testrun.Eventually(t, "a preemption through "+api, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		_, err := operator.PreemptWorker(ctx, idle, 10*time.Second)
		if err != nil {
			require.Equal(t, client.CodeUnavailable, client.ErrorCode(err), "through %s: %v", api, err)
		}
		return err == nil
	})
}
