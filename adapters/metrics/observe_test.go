package metrics

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/alerts"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/models/schedules"
	"github.com/stretchr/testify/require"
)

func TestEnded(t *testing.T) {
	t.Parallel()

	m := New(Sources{Queues: none, Pools: func(context.Context) ([]*query.PoolStatus, error) {
		return []*query.PoolStatus{{Pool: &capacity.Pool{ID: "pool_1", PoolSpec: capacity.PoolSpec{Name: "spot"}}}}, nil
	}})
	require.NoError(t, m.Refresh(t.Context()))
	leased := time.Now()
	end := jobs.AttemptEnd{
		Attempt: &models.Attempt{Status: models.AttemptLost, LeasedAt: leased, EndedAt: leased.Add(time.Hour), GPUSeconds: 3600,
			WastedGPUSeconds: 60},
		Worker: &models.Worker{PoolID: "pool_1", Offer: models.Offer{Region: "europe-west4", PricePerHourUSD: new(1.5)}},
		Job:    &models.Job{Model: "testcard"}, Preempted: true, Expired: true,
	}

	m.Ended(end)
	end.Worker, end.Preempted, end.Expired = &models.Worker{}, false, false
	m.Ended(end)
	end.Worker = &models.Worker{PoolID: "pool_2"}
	m.Ended(end)

	require.Subset(t, scrape(t, m), []string{
		`reelay_attempts_ended_total{pool="spot",status="LOST"} 1`, `reelay_attempts_ended_total{pool="none",status="LOST"} 1`,
		`reelay_attempts_ended_total{pool="unknown",status="LOST"} 1`,
		`reelay_preemptions_total{pool="spot",region="europe-west4"} 1`, `reelay_lease_expirations_total{pool="spot"} 1`,
	})
}

func TestWaits(t *testing.T) {
	t.Parallel()

	m := New(Sources{Queues: none})
	at := time.Now()
	queued := models.Job{Tier: models.TierPro, Model: "testcard", Status: models.JobQueued, Requeued: true, Preemptions: 1, QueuedAt: at,
		LeasedAt: at.Add(10 * time.Second)}
	assigned := queued
	assigned.Status, assigned.WaitedSeconds = models.JobAssigned, new(40.0)
	running := assigned
	running.Status, running.UpdatedAt = models.JobRunning, at.Add(12*time.Second)
	completed := running
	completed.Status, completed.LeasedSeconds, completed.Params = models.JobCompleted, new(90.0), json.RawMessage(`{"resolution": "720p"}`)

	m.Changed(&models.Job{Tier: models.TierPro, Status: models.JobScheduled, RunAt: at.Add(-3 * time.Second)}, &queued)
	m.Changed(&queued, &assigned)
	m.Changed(&assigned, &running)
	m.Changed(&running, &completed)
	m.Changed(&assigned, &assigned)
	m.Checkpointed(&running, new(3.0))
	m.Checkpointed(&running, nil)

	require.Subset(t, scrape(t, m), []string{
		`reelay_queue_wait_seconds_sum{tier="PRO"} 40`, `reelay_job_due_lag_seconds_sum 3`, `reelay_job_start_lag_seconds_sum 2`,
		`reelay_preemption_recovery_seconds_sum 12`,
		`reelay_generation_seconds_sum{model="testcard",resolution="720p"} 90`,
		`reelay_generation_seconds_count{model="testcard",resolution="720p"} 1`,
		`reelay_checkpoint_duration_seconds_sum{model="testcard"} 3`, `reelay_checkpoint_duration_seconds_count{model="testcard"} 1`,
		`reelay_jobs_finished_total{class="none",status="COMPLETED"} 1`,
	})
}

func TestGauges(t *testing.T) {
	t.Parallel()

	m := New(Sources{
		Queues: func(context.Context) ([]backlog.QueueCount, error) {
			counts := []backlog.QueueCount{
				{Lane: models.TierPro, Model: "a", Depth: 3, Running: 1, OldestWaitSeconds: new(7.0), Pause: &models.Pause{}},
				{Lane: models.TierPro, Model: "b", Depth: 1, OldestWaitSeconds: new(9.0)},
				{Lane: models.TierFree, Model: "nobody", Depth: 1},
			}
			for i := range maxModels {
				counts = append(counts, backlog.QueueCount{Lane: models.TierPro, Model: fmt.Sprintf("m%02d", i), Depth: 10})
			}
			return counts, nil
		},
		Workers: func(context.Context) ([]alerts.WorkerCount, error) {
			return []alerts.WorkerCount{{Status: models.WorkerIdle, Count: 1}, {Status: models.WorkerBusy, Count: 3}}, nil
		},
		Health: func(context.Context) (*alerts.Health, error) {
			return &alerts.Health{OutboxLagSeconds: 1.5, SchedulerLagSeconds: 2.5, StalledJobs: 3, DeadLetters: 4, LeasesHaltedSeconds: 5,
				Unsettled: 6, UnsettledSeconds: 7.5, OpenApprovals: 8, OpenApprovalSeconds: 9.5, DeletionsStuck: 10}, nil
		},
	})

	lines := scrape(t, m)

	require.Subset(t, lines, []string{
		`reelay_queue_depth{model="a",tier="PRO"} 3`, `reelay_queue_depth{model="other",tier="PRO"} 30`,
		`reelay_queue_running{model="a",tier="PRO"} 1`,
		`reelay_queue_oldest_wait_seconds{tier="PRO"} 9`, `reelay_queue_paused{tier="PRO"} 1`, `reelay_queue_paused{tier="FREE"} 0`,
		`reelay_workers{status="BUSY"} 3`, `reelay_workers{status="BOOTING"} 0`, `reelay_worker_utilization 0.75`,
		`reelay_outbox_lag_seconds 1.5`, `reelay_scheduler_lag_seconds 2.5`, `reelay_stalled_jobs 3`, `reelay_dlq_size 4`,
		`reelay_unsettled_dependencies 6`, `reelay_settle_lag_seconds 7.5`,
		`reelay_open_approvals 8`, `reelay_open_approval_age_seconds 9.5`, `reelay_stuck_deletions 10`,
		`reelay_halted_seconds{what="leases"} 5`, `reelay_halted_seconds{what="schedules"} 0`,
	})
}

func TestSlot(t *testing.T) {
	t.Parallel()

	m := New(Sources{Queues: none})
	m.Slot(&schedules.Slot{State: schedules.SlotFired, Cause: schedules.SlotCron, Tier: models.TierPro}, 400*time.Millisecond)
	m.Slot(&schedules.Slot{State: schedules.SlotFired, Cause: schedules.SlotCatchUp, Tier: models.TierPro}, time.Hour)
	m.Slot(&schedules.Slot{State: schedules.SlotRefused, Cause: schedules.SlotCron, Tier: models.TierPro,
		LeftOut: schedules.LeftGivenUp},
		time.Minute)

	require.Subset(t, scrape(t, m), []string{
		`reelay_schedule_slots_total{cause="CRON",state="FIRED"} 1`, `reelay_schedule_slots_total{cause="CRON",state="REFUSED"} 1`,
		`reelay_schedule_slots_total{cause="CATCH_UP",state="FIRED"} 1`, `reelay_schedule_slots_left_out_total{reason="given_up"} 1`,
		`reelay_schedule_fire_lag_seconds_count{tier="PRO"} 1`, `reelay_schedule_fire_lag_seconds_bucket{tier="PRO",le="0.5"} 1`,
	})
}

func TestTimed(t *testing.T) {
	t.Parallel()

	m := New(Sources{Queues: none})
	handler := m.Timed(func(r *http.Request) Route { return Route(r.Header.Get("Route")) },
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusTeapot)
			require.NoError(t, http.NewResponseController(w).Flush(), "streams must work")
		}))
	for _, route := range []Route{RouteREST, ""} {
		r := httptest.NewRequest(http.MethodGet, "/x", nil)
		r.Header.Set("Route", string(route))
		handler.ServeHTTP(httptest.NewRecorder(), r)
	}

	lines := fmt.Sprint(scrape(t, m))

	require.Contains(t, lines, `reelay_http_request_duration_seconds_count{code="418",route="rest"} 1`)
	require.NotContains(t, lines, `route=""`)
}
