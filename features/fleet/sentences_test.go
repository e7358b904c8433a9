package fleet_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/models/capacity"
	"github.com/samber/lo"
	"github.com/stretchr/testify/require"
)

// takes is how long a worker of the cloud renders a job.
const takes = 45 * time.Second

// held is a job that a worker of the cloud renders.
type held struct {
	fence lease.Fence
	since time.Duration
}

// crowd are jobs that wait for the workers of a cloud.
type crowd struct {
	// plain waits behind all others that any worker runs. safe runs on on-demand capacity only, cheap at most at
	// $0.4, far in another region, and doomed has a deadline that cannot be met.
	plain, safe, cheap, far, doomed models.JobID
}

// work has the registered workers take jobs and end them, and keeps jobs waiting.
func (c *cloud) work(t *testing.T, s *jobstest.Stack, all *crowd, second int) {
	t.Helper()
	for _, m := range c.machines {
		if m.gone > 0 || m.worker.WorkerID == "" {
			m.held = nil
			continue
		}
		if m.held != nil && c.now-m.held.since >= takes {
			// It fails if the attempt was taken from the worker meanwhile.
			_, _ = s.Attempts.Fail(t.Context(), m.worker, m.held.fence, lease.Failure{Class: models.FailContentPolicy})
			m.held = nil
		}
		if m.held == nil && second%3 == 0 {
			granted, _, err := s.Leaser.Lease(t.Context(), m.worker, lease.LeaseCall{WorkerID: m.worker.WorkerID})
			if err == nil && granted != nil {
				m.held = &held{lease.Fence{AttemptID: granted.Attempt.ID, Token: granted.Attempt.FencingToken}, c.now}
			}
		}
	}
	if second%20 == 0 {
		var queued int
		require.NoError(t, s.DB.NewRaw("SELECT count(*) FROM jobs WHERE status = 'QUEUED' AND needs = '' AND region IS NULL").Scan(t.Context(), &queued))
		for range 6 - queued {
			s.Submit(t)
		}
		if s.Reload(t, all.plain).Status != models.JobQueued {
			all.plain = jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) { in.Tier = models.TierPro }).ID
		}
	}
}

// gather submits the jobs whose reasons are checked.
func gather(t *testing.T, s *jobstest.Stack) crowd {
	t.Helper()
	one := func(with func(*submit.Submission)) models.JobID { return jobstest.SubmitAs(t, s, s.Client, with).ID }
	all := crowd{
		plain: one(func(in *submit.Submission) { in.Tier = models.TierPro }),
		safe:  one(func(in *submit.Submission) { in.MaxPreemptions = new(0) }),
		cheap: one(func(in *submit.Submission) { in.MaxPricePerHour = new(0.4) }),
		far:   one(nil),
		doomed: one(func(in *submit.Submission) {
			in.MaxPricePerHour, in.FinishBy = new(0.4), new(time.Now().Add(10*time.Minute))
		}),
	}
	s.Exec(t, "UPDATE jobs SET region = 'mars', require_region = true WHERE id = ?", all.far)
	return all
}

// number returns the number in a message that a pattern finds, or -1.
func number(message, pattern string) int {
	found := regexp.MustCompile(pattern).FindStringSubmatch(message)
	if found == nil {
		return -1
	}
	n, _ := strconv.Atoi(found[1])
	return n
}

// checkJobs compares the sentences about waiting jobs with the truth of the cloud.
func (c *cloud) checkJobs(t *testing.T, s *jobstest.Stack, all crowd) {
	t.Helper()
	require.NoError(t, s.Estimates.Refresh(t.Context()))
	reasons, err := s.WaitingFor(t, all.plain, all.safe, all.cheap, all.far, all.doomed)
	require.NoError(t, err)
	row := s.Reload(t, all.plain)
	says := fmt.Sprintf("at %s of %s: %+v", c.now, row.Status, reasons[all.plain])

	var booting, registered, idle, busy, unseen int
	for _, m := range c.machines {
		ended := m.gone > 0
		switch {
		case m.worker.WorkerID == "" && c.now < m.boots:
			booting++
		case m.worker.WorkerID != "" && m.held != nil:
			busy++
		case m.worker.WorkerID != "":
			idle++
		}
		if m.worker.WorkerID != "" && !ended {
			registered++
		}
		if ended && c.now-m.gone > c.lag+2*time.Minute {
			continue
		}
		if ended || m.deleted > 0 || m.worker.WorkerID == "" {
			unseen++ // whether the scaler knows it already depends on the lists
		}
	}
	for _, r := range lo.Flatten(lo.Values(reasons)) {
		for _, sentence := range []string{r.Message, r.Consequence, r.Change} {
			require.NotEmpty(t, sentence, "%+v", r)
			require.True(t, strings.HasSuffix(sentence, "."), sentence)
		}
		require.True(t, r.Until.IsZero() || r.Until.After(time.Now().Add(-time.Second)), "it ended at %s: %s", r.Until, r.Message)
	}

	queues, err := s.Reads.Queues.Capacities(t.Context(), []backlog.QueueCount{{Lane: models.TierPro, Model: "testcard"}})
	require.NoError(t, err)
	for sentence, holds := range map[string]bool{
		"at the maximum of ":                booting+idle+busy+unseen >= 8,
		"a pool gets no machines":           c.asked > c.made || c.lacks > 0 || c.empty > 0 || c.lag > 0,
		"do not start":                      lo.SomeBy(lo.Values(c.machines), func(m *rented) bool { return m.boots == time.Hour }),
		"its pools are paused":              c.acts == actPausePool,
		"fakes is outside its active hours": c.acts == actHours,
		"fakes is dearer than its limit":    c.acts == actDear,
		"no pool and no worker serves it":   false,
	} {
		require.True(t, holds || !strings.Contains(queues[0].Cause, sentence), "%q does not hold %s", queues[0].Cause, says)
	}
	needs := map[act]string{actPausePool: "its pools are paused", actHours: "outside its active hours", actDear: "dearer than its limit"}
	require.Contains(t, queues[0].Cause, needs[c.acts], says)

	of := lo.KeyBy(reasons[all.plain], func(r query.WaitingReason) query.WaitingCode { return r.Code })
	if row.Status == models.JobQueued {
		var ahead int
		if c.acts != actHalt && c.acts != actCap { // then no job of another lane, or account, goes first
			require.NoError(t, s.DB.NewRaw(`SELECT count(*) FROM jobs WHERE status = 'QUEUED' AND needs = '' AND NOT require_region
				AND lane = 'ENTERPRISE'`).Scan(t.Context(), &ahead))
		}
		require.Equal(t, ahead, max(0, number(of[query.WaitQueueAhead].Message, `^(\d+) jobs? ahead`)), says)
		require.NotContains(t, of, query.WaitNoPool, says)
		truths := map[string]bool{
			"a provider has just refused machines":           c.asked > c.made,
			"does not answer as it should":                   c.lacks > 0 || c.empty > 0 || c.lag > 0,
			"in a row failed to":                             lo.SomeBy(lo.Values(c.machines), func(m *rented) bool { return m.boots == time.Hour }),
			"whose machines have not ended yet":              unseen > 0,
			"suitable worker is starting":                    booting+unseen > 0,
			"suitable workers are starting":                  booting+unseen > 1,
			"that can run it is busy":                        busy+unseen > 0,
			"that can run it are busy":                       busy+unseen > 1,
			"The pools that can run it are paused":           c.acts == actPausePool,
			"cost more than the price limits of their pools": c.acts == actDear,
			"quarantined after failures":                     c.acts == actQuarantine,
			"in quarantine":                                  c.acts == actQuarantine,
			"have workers at certain hours only":             c.acts == actHours,
			"lane is paused":                                 c.acts == actPauseLane,
			"has halted the starts":                          c.acts == actHalt,
			"The account is at its limit of ":                c.acts == actCap,
		}
		for _, r := range of {
			for sentence, holds := range truths {
				if strings.Contains(r.Message, sentence) {
					require.True(t, holds, "%q does not hold %s (%d of %d machines; %d boot, %d idle, %d busy, %d unseen)", sentence, says, c.made,
						c.asked, booting, idle, busy, unseen)
				}
			}
			require.LessOrEqual(t, number(r.Message, `^(\d+) workers? that can run it (?:is|are) busy`), busy+unseen, says)
			require.LessOrEqual(t, number(r.Message, `(\d+) suitable workers? (?:is|are) starting`), booting+unseen, says)
			require.LessOrEqual(t, number(r.Consequence, `room for (\d+) more`), 8-busy, says)
		}
		if need := needed[c.acts]; need != "" {
			require.Contains(t, of, need, says)
		}
		// Without a reason of the capacity, a worker is idle.
		named := lo.SomeBy(reasons[all.plain], func(r query.WaitingReason) bool { return r.Code != query.WaitQueueAhead })
		if !named && registered > 0 {
			require.NotZero(t, idle, says)
		}
	}
	first := func(id models.JobID) query.WaitingReason {
		require.NotEmpty(t, reasons[id])
		return lo.Filter(reasons[id], func(r query.WaitingReason, _ int) bool {
			return r.Code != query.WaitHalted && r.Code != query.WaitQueuePaused && r.Code != query.WaitAccountRunningCap
		})[0]
	}
	require.Contains(t, first(all.safe).Message, "It runs on on-demand capacity only: its maxPreemptions is 0.")
	require.Equal(t, query.WaitNoPool, first(all.safe).Code)
	require.Contains(t, first(all.cheap).Message, "at most $0.4 per hour, its maxPricePerHour.")
	require.Contains(t, []query.WaitingCode{query.WaitPrice, query.WaitNoPool}, first(all.cheap).Code)
	require.Contains(t, first(all.far).Message, "in the region mars")
	require.Equal(t, query.WaitNoPool, first(all.far).Code)
	require.True(t, lo.SomeBy(reasons[all.doomed], func(r query.WaitingReason) bool {
		return strings.Contains(r.Consequence, " Its finishBy, ") && strings.Contains(r.Consequence, " cannot be met")
	}), "%+v", reasons[all.doomed])
}

// act is what operators do in a part of a run.
type act string

const (
	actPausePool  act = "pause the pool"
	actDear       act = "the price is above the limit"
	actHours      act = "outside the hours"
	actQuarantine act = "quarantine"
	actPauseLane  act = "pause the lane"
	actHalt       act = "halt"
	actCap        act = "cap the account"
)

// needed is the code that must be among the reasons during an act.
var needed = map[act]query.WaitingCode{
	actPausePool: query.WaitPoolPaused, actDear: query.WaitPrice, actPauseLane: query.WaitQueuePaused, actHalt: query.WaitHalted,
	actCap: query.WaitAccountRunningCap,
}

// operate lets operators begin another act each minute.
func (c *cloud) operate(t *testing.T, s *jobstest.Stack, pool *capacity.Pool, second int) {
	t.Helper()
	acts := []act{"", actPauseLane, actHalt, actCap, actDear, actHours, actPausePool, actQuarantine}
	if second%60 != 0 {
		return
	}
	switch c.acts { // the end of the last one
	case actPauseLane:
		_, err := s.Operator.ResumeQueue(t.Context(), s.Admin, models.TierPro, "")
		require.NoError(t, err)
	case actHalt:
		_, err := s.Operator.Resume(t.Context(), s.Admin, []models.HaltTarget{models.HaltLeases})
		require.NoError(t, err)
	case actCap:
		s.Exec(t, "UPDATE accounts SET max_running = 200 WHERE id = ?", s.Account.ID)
		s.Exec(t, "UPDATE account_lanes SET capped = false WHERE account_id = ?", s.Account.ID)
	case actDear:
		s.Exec(t, "UPDATE pools SET max_price_per_hour_usd = 0 WHERE id = ?", pool.ID)
	case actHours:
		s.Exec(t, "UPDATE pools SET active_hours = '' WHERE id = ?", pool.ID)
	case actPausePool:
		s.Exec(t, "UPDATE pools SET paused_at = NULL WHERE id = ?", pool.ID)
	}
	switch c.acts = acts[second/60]; c.acts {
	case actPauseLane:
		_, err := s.Operator.PauseQueue(t.Context(), s.Admin, models.TierPro, "", "")
		require.NoError(t, err)
	case actHalt:
		_, err := s.Operator.Halt(t.Context(), s.Admin, []models.HaltTarget{models.HaltLeases}, "fire")
		require.NoError(t, err)
	case actCap:
		s.Exec(t, "UPDATE accounts SET max_running = 0 WHERE id = ?", s.Account.ID)
		s.Exec(t, "UPDATE account_lanes SET capped = true WHERE account_id = ?", s.Account.ID)
	case actDear:
		s.Exec(t, "UPDATE pools SET max_price_per_hour_usd = 0.5 WHERE id = ?", pool.ID)
	case actHours:
		now := time.Now().UTC()
		s.Exec(t, "UPDATE pools SET active_hours = ? WHERE id = ?", fmt.Sprintf("0 %d * * * for 1h", (now.Hour()+3)%24), pool.ID)
	case actPausePool:
		s.Exec(t, "UPDATE pools SET paused_at = clock_timestamp() WHERE id = ?", pool.ID)
	case actQuarantine:
		s.Exec(t, "UPDATE workers SET quarantined_until = clock_timestamp() + interval '1 hour' WHERE ended_at IS NULL")
	}
}
