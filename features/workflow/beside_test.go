package workflow_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/reelay/reelay/features/workflow"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// beside is workers that lease and complete the jobs of two accounts, one of which also submits
// large workflows.
type beside struct {
	rig
	workers []jobs.Principal
	others  []jobs.Principal // the clients of both accounts
}

func newBeside(t *testing.T) *beside {
	t.Helper()
	b := &beside{rig: newRig(t)}
	b.others = []jobs.Principal{b.Client, b.NewKey(t, b.NewAccount(t, "other", models.TierEnterprise), access.RoleClient)}
	b.Exec(t, "UPDATE accounts SET max_queued = 900000, max_running = 1000, submits_per_minute = 1000000")
	for i := range 5 {
		b.workers = append(b.workers, b.Worker(t, fmt.Sprint("worker", i)))
	}
	return b
}

// queue submits n jobs of each account, which come before the nodes of workflows.
func (b *beside) queue(t *testing.T, n int) {
	t.Helper()
	in := jobstest.Submission()
	in.Priority = 50
	for _, p := range b.others {
		for some := range slices.Chunk(slices.Repeat([]submit.Submission{in}, n), 500) {
			_, err := b.Submitter.SubmitMany(t.Context(), p, some)
			require.NoError(t, err)
		}
	}
}

// work leases and completes jobs until ctx ends, at most n with each worker, and returns how long
// each call took.
func (b *beside) work(t *testing.T, ctx context.Context, n int) (calls []time.Duration) {
	t.Helper()
	var mu sync.Mutex
	timed := func(call func() error) bool {
		began := time.Now()
		err := call()
		took := time.Since(began)
		mu.Lock()
		defer mu.Unlock()
		calls = append(calls, took)
		return assert.NoError(t, err)
	}
	var all sync.WaitGroup
	for _, worker := range b.workers {
		all.Go(func() {
			for i := 0; i < n && ctx.Err() == nil; i++ {
				var granted *lease.Lease
				if !timed(func() (err error) {
					granted, _, err = b.Leaser.Lease(t.Context(), worker, lease.LeaseCall{WorkerID: worker.WorkerID})
					return err
				}) || !assert.NotNil(t, granted) {
					return
				}
				fence := jobstest.FenceOf(granted)
				video := b.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a video"))
				if !timed(func() error {
					_, err := b.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &video})
					return err
				}) {
					return
				}
			}
		})
	}
	all.Wait()
	slices.Sort(calls)
	return calls
}

func p95(sorted []time.Duration) time.Duration { return sorted[len(sorted)*95/100] }

// TestWorkersBesideLargeWorkflows measures what TestLongRequests proves. On a busy machine all calls
// take long, submits included: so these are the measure. The nightly run is alone on its machine.
func TestWorkersBesideLargeWorkflows(t *testing.T) {
	if !testrun.Nightly() {
		t.Parallel()
	}

	times, nodes := 1, 1000
	if testrun.Nightly() {
		times, nodes = 5, 3000
	}
	b := newBeside(t)
	const warm = 60
	b.queue(t, 5*(warm+40*nodes/100)*times)
	before := b.work(t, t.Context(), warm)
	submitting, over := context.WithCancel(t.Context())
	defer over()
	submits := make(chan time.Duration, times)
	go func() {
		defer over()
		for range times {
			began := time.Now()
			_, _, err := b.workflows.Submit(t.Context(), b.Client, workflow.Input{Name: "film", Jobs: fan(nodes-1, models.FailureCascade)})
			assert.NoError(t, err)
			submits <- time.Since(began)
		}
	}()

	during := b.work(t, submitting, 1<<20)

	close(submits)
	shortest := time.Hour
	for took := range submits {
		shortest = min(shortest, took)
	}
	t.Logf("%d workflows of %d nodes, the fastest in %s; calls of workers: %d before, p95 %s, longest %s; %d during, p95 %s, longest %s",
		times, nodes, shortest, len(before), p95(before), before[len(before)-1], len(during), p95(during), during[len(during)-1])
	require.Less(t, p95(during), shortest/2, "no call waits until the workflow is written")
	if testrun.Nightly() {
		require.Less(t, p95(during), max(p95(before)*3/2, p95(before)+50*time.Millisecond))
	}
	b.RequireRows(t)
}
