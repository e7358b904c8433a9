package e2e

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/runtimes/remote/enginetest"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

const (
	soakAgents = 20
	// A job of a measured phase takes two minutes, as at real providers, and one of killed agents takes less than a
	// lease. The fake's clock ticks each second.
	longSteps, shortSteps = 120, 40
	// Jobs of one account often share an agent, and a kill costs the rest of a lease: so agents of several accounts are
	// killed at once.
	soakAccounts = 5
	// killsForJob is how many kills there are for each job of a measured phase.
	killsForJob = 5
	// stormAfter is the Retry-After of the storm. It lasts longer than a runtime is patient, and than it repeats a submit.
	stormAfter, stormFor = 20 * time.Second, 200 * time.Second
)

// TestSoakProvider measures 20 agents that share one account of a provider, while everything else fails.
func TestSoakProvider(t *testing.T) {
	n := soakJobs(t, 0)
	if n == 0 {
		t.Skip("it takes half an hour: REELAY_SOAK_JOBS=20 runs it, as `go tool task test:providers` does")
	}

	t.Run("HoldsTheLimit", func(t *testing.T) {
		h := startProviders(t).rent(t, "hosted", soakAgents, longSteps)
		h.fake.Run(time.Second)
		h.feed(t, 2*n+2*hostedLimit) // five before the phases, and five after the storm
		testrun.Eventually(t, "that the provider works on five jobs", func() bool { return h.fake.Most() == hostedLimit })
		h.measure(t, "under load", n, func(int) {})
		h.measure(t, "Redis killed twice", n, func(begun int) {
			if begun == n/3 || begun == 2*n/3 {
				h.kill(t, "redis", syscall.SIGKILL)
			}
		})
		h.storms(t)
		h.check(t)
	})

	t.Run("PaysForNothingTwice", func(t *testing.T) {
		s := startProviders(t)
		for i := range soakAccounts {
			t.Run(fmt.Sprint("account-", i), func(t *testing.T) {
				t.Parallel()
				s.rent(t, fmt.Sprint("hosted-", i), soakAgents/soakAccounts, shortSteps).killAgents(t, n*killsForJob/soakAccounts)
			})
		}
	})
}

// measure waits until so many jobs have begun at the provider, and prints what there was at the provider meanwhile. It
// calls fault once for each job.
func (h *hosted) measure(t *testing.T, phase string, jobs int, fault func(begun int)) {
	t.Helper()
	from, before := time.Now(), len(h.fake.Tasks())
	for begun := 1; begun <= jobs; begun++ {
		testrun.Eventually(t, "that jobs begin", func() bool { return len(h.fake.Tasks()) >= before+begun })
		fault(begun)
	}
	to := time.Now()
	average := h.fake.Average(from, to)
	t.Logf("%s: %d jobs in %s, at most %d at the provider, %.2f on average; %d calls in a minute at most",
		phase, jobs, to.Sub(from).Round(time.Second), h.fake.Most(), average, h.fake.MostCalls())
	require.Equal(t, hostedLimit, h.fake.Most())
	require.Zero(t, h.fake.Limited(), "the provider refused a job because of its limit")
	require.GreaterOrEqual(t, average, 4.8)
}

// storms has the provider answer 429 to everything for a time, and prints how long it takes until calls succeed again.
func (h *hosted) storms(t *testing.T) {
	t.Helper()
	begun, before := time.Now(), h.fake.Limited()
	h.storm(t, stormAfter)
	require.NoError(t, sleep(t.Context(), stormFor-time.Since(begun)))
	var first atomic.Pointer[time.Time]
	h.fake.Fault("GET /tasks", 0, enginetest.Rewrite(func(answer []byte) []byte {
		if now := time.Now(); bytes.Contains(answer, []byte(`"SUCCEED"`)) {
			first.CompareAndSwap(nil, &now)
		}
		return answer
	}))
	refused := h.fake.Limited() - before
	h.fake.Allow()
	over, tasks := time.Now(), len(h.fake.Tasks())
	testrun.Eventually(t, "that a call succeeds", func() bool { return first.Load() != nil })
	testrun.Eventually(t, "that five new jobs are at the provider", func() bool { return len(h.fake.Tasks()) >= tasks+hostedLimit })
	recovery := first.Load().Sub(over)
	t.Logf("a storm of 429 for %s with Retry-After %s: %d calls were refused; a call succeeded after %s, five new jobs were there after %s",
		over.Sub(begun).Round(time.Second), stormAfter, refused, recovery.Round(100*time.Millisecond),
		time.Since(over).Round(100*time.Millisecond))
	h.fake.NoFaults()
	require.LessOrEqual(t, recovery, stormAfter+2*time.Second) // the agents come up to a tenth later, not all at once
}

// killAgents kills agents in a poll so many times, and checks that no job was paid twice.
func (h *hosted) killAgents(t *testing.T, most int) {
	t.Helper()
	h.fake.Run(time.Second)
	begun, hits := time.Now(), map[string]int{}
	for kills := 0; kills < most; {
		if len(h.ids)-len(h.fake.Tasks()) < hostedLimit {
			h.feed(t, hostedLimit)
		}
		if h.killInPoll(t, hits) {
			kills++
		}
	}
	took := time.Since(begun)
	h.fake.NoFaults()
	h.check(t)
	lost := 0
	for _, n := range hits {
		lost += n
	}
	t.Logf("%d kills of an agent in a poll in %s: %d jobs, which lost their worker %d times; %d were paid; at most %d at the provider",
		most, took.Round(time.Second), len(h.ids), lost, len(h.fake.Tasks()), h.fake.Most())
	require.Equal(t, hostedLimit, h.fake.Most())
	require.Zero(t, h.fake.Limited(), "the provider refused a job because of its limit")
}

// killInPoll kills an agent while it waits for the answer to a poll, and starts another. It returns false if it does
// not find whose poll it was.
func (h *hosted) killInPoll(t *testing.T, hits map[string]int) bool {
	t.Helper()
	asked, goOn := make(chan string, 1), make(chan struct{})
	defer close(goOn)
	h.fake.NoFaults()
	h.fake.Fault("GET /tasks", 0, func(c *enginetest.Call) {
		if ref := c.Request.URL.Query().Get("task_ids"); ref != "" { // or it looks for a lost submit
			select {
			case asked <- ref:
				<-goOn
			default:
			}
		}
		c.Do(c.Answer, c.Request)
	})
	ref := testrun.Receive(t, "a poll", asked)
	logs := make([]string, len(h.agents))
	for i, agent := range h.agents {
		text, err := os.ReadFile(agent.log)
		require.NoError(t, err)
		logs[i] = string(text)
	}
	doomed, jobs := -1, map[int][]string{} // the jobs of each agent
	for _, task := range h.fake.Tasks() {
		attempt := h.attempt(t, task.Prompt)
		for i, text := range logs {
			if attempt != "" && strings.Contains(text, attempt) {
				jobs[i] = append(jobs[i], task.Prompt)
				if task.ID == ref {
					doomed = i
				}
			}
		}
	}
	if doomed < 0 {
		return false
	}
	for _, prompt := range jobs[doomed] {
		hits[prompt]++
	}
	h.restart(t, doomed)
	return true
}

// attempt returns the id of the live attempt of a job, or "". It forgets jobs that are complete.
func (h *hosted) attempt(t *testing.T, prompt string) string {
	t.Helper()
	if h.complete[prompt] {
		return ""
	}
	job, err := h.operator(t).JobHistory(t.Context(), h.ids[prompt])
	require.NoError(t, err)
	h.complete[prompt] = job.Status == client.JobStatusCompleted
	for _, a := range job.Attempts {
		if a.EndedAt == nil {
			return a.Id
		}
	}
	return ""
}
