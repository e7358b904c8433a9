package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/models"
)

// overview is the state of all of Reelay. Null is unknown.
type overview struct {
	At                 time.Time `json:"at" doc:"When it was read."`
	Queued             int       `json:"queued" doc:"Jobs that wait for a worker."`
	Running            int       `json:"running" doc:"Jobs that a worker holds."`
	Scheduled          int       `json:"scheduled" doc:"Jobs that start later, counted up to 10,001."`
	Blocked            int       `json:"blocked" doc:"Jobs that wait for other jobs, counted up to 10,001."`
	DeadLetters        int       `json:"dead_letters" doc:"Open dead letters that operators must act on."`
	WorkersIdle        int       `json:"workers_idle" doc:"Workers without a job."`
	WorkersBusy        int       `json:"workers_busy" doc:"Workers with a job."`
	WorkersBooting     int       `json:"workers_booting" doc:"Workers that are not ready yet."`
	WorkersDraining    int       `json:"workers_draining" doc:"Workers that take no further job."`
	WorkersWithoutPool int       `json:"workers_without_pool" doc:"How many of these workers belong to no pool."`
	WorkersMax         int       `json:"workers_max" doc:"How many workers the pools may have that are not paused."`
	Promoted           int       `json:"promoted" doc:"How many of the queued jobs were promoted into a higher lane."`

	SubmittedPerMinute         *float64   `json:"submitted_per_minute" doc:"Submitted jobs per minute, in the last ten minutes."`
	CompletedPerMinute         *float64   `json:"completed_per_minute" doc:"Completed jobs per minute, in the last ten minutes."`
	FailureRate                *float64   `json:"failure_rate" doc:"The share of the jobs that ended in the last hour that failed, 0 to 1, without failures that customers caused."`
	WaitSecondsP50             *float64   `json:"wait_seconds_p50" doc:"Seconds from queued to the first lease in the last hour, without those in which the queue was paused or all starts halted, median."`
	WaitSecondsP95             *float64   `json:"wait_seconds_p95" doc:"95th percentile of the same."`
	RenderSecondsP50           *float64   `json:"render_seconds_p50" doc:"Seconds that workers held a completed job in the last hour, median."`
	RenderSecondsP95           *float64   `json:"render_seconds_p95" doc:"95th percentile of the same."`
	PreemptionsPerHour         *float64   `json:"preemptions_per_hour" doc:"Attempts of the last hour that lost their worker, without those whose worker an operator took."`
	OperatorPreemptionsPerHour *float64   `json:"operator_preemptions_per_hour" doc:"Attempts of the last hour whose worker an operator preempted, such as in a drill."`
	RecoverySecondsP95         *float64   `json:"recovery_seconds_p95" doc:"Seconds until a job that lost its worker ran again, 95th percentile of the last hour."`
	GPUUtilization             *float64   `json:"gpu_utilization" doc:"How busy the GPUs say they are, 0 to 1."`
	CostUSDPerHour             *float64   `json:"cost_usd_per_hour" doc:"Cost of the workers in the last hour. Null if none has a price."`
	WastedUSDPerHour           *float64   `json:"wasted_usd_per_hour" doc:"Part of cost_usd_per_hour that paid for lost work."`
	CostUSDPerVideo            *float64   `json:"cost_usd_per_video" doc:"Cost of the machines of the last hour for each job that completed in it. Null if none completed or no worker has a price."`
	Paid                       []paidTime `json:"paid" nullable:"false" doc:"What the machines of the last hour were paid for, by class."`
	EstimatedDrainSeconds      *float64   `json:"estimated_drain_seconds" doc:"Seconds to empty all queues if no job is added, without the jobs that drain_leaves_out counts. Null if jobs wait but none of them starts."`
	DrainLeavesOut             []leftOut  `json:"drain_leaves_out" nullable:"false" doc:"The waiting jobs that do not start as things are, by reason."`
}

// paidTime is the paid time of a class.
type paidTime struct {
	Class   string  `json:"class" enum:"BOOT,LOAD,IDLE,USEFUL,WASTED,ENDING" doc:"BOOT is until a worker registered, LOAD from a lease until the render began, IDLE without a lease, USEFUL render time that was kept, WASTED what was lost, ENDING from the end of a worker until its machine was gone."`
	Seconds float64 `json:"seconds" doc:"Time of workers. That of USEFUL can be negative in a short time, since lost time moves to WASTED when it is lost."`
	USD     float64 `json:"usd" doc:"What it cost. 0 without a price."`
}

func paidOf(times []models.PaidTime) []paidTime {
	var all []paidTime
	for _, time := range times {
		all = append(all, paidTime{string(time.Class), time.Seconds, time.USD})
	}
	return all
}

// leftOut is queued jobs that the time to empty queues leaves out.
type leftOut struct {
	Reason  string `json:"reason" enum:"HALTED,PAUSED,NO_CAPACITY,NO_WORKER" doc:"Why they do not start: all leases are halted, their queue is paused, nothing can run them, or no worker that can is ready."`
	Jobs    int    `json:"jobs" doc:"How many jobs."`
	Message string `json:"message" doc:"The reason in a few words."`
}

func leftOutOf(o *query.Overview) []leftOut {
	all := make([]leftOut, len(o.Drain.LeftOut))
	for i, l := range o.Drain.LeftOut {
		all[i] = leftOut{string(l.Obstacle), l.Jobs, l.Why()}
	}
	return all
}

type overviewOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         overview
}

func (s *service) registerOverview(api huma.API) {
	serve(api, huma.Operation{
		OperationID: "getOverview", Method: http.MethodGet, Path: "/api/v1/overview", Summary: "Read the state of Reelay",
		Description: "For operators: queues, fleet, waits, failures and costs. Null is unknown.",
		Errors:      []int{http.StatusTooManyRequests},
	}, func(ctx context.Context, _ *struct{}) (*overviewOutput, error) {
		p := callerOf(ctx).Principal
		ctx, read, err := s.Reads.Shares.Admit(ctx, p, query.OverviewPrice)
		if err != nil {
			return nil, err
		}
		defer read.End()
		o, err := s.Reads.History.Overview(ctx, p)
		if err != nil {
			return nil, err
		}
		return &overviewOutput{CacheControl: "no-store", Body: overview{
			At: o.At.UTC(), Queued: o.Queued, Running: o.Running, Scheduled: o.Scheduled, Blocked: o.Blocked, DeadLetters: o.DeadLetters,
			WorkersIdle: o.WorkersIdle, WorkersBusy: o.WorkersBusy, WorkersBooting: o.WorkersBooting, WorkersDraining: o.WorkersDraining,
			WorkersWithoutPool: o.WorkersWithoutPool, WorkersMax: o.WorkersMax, Promoted: o.Promoted,
			OperatorPreemptionsPerHour: o.OperatorPreemptionsPerHour,
			SubmittedPerMinute:         o.SubmittedPerMinute, CompletedPerMinute: o.CompletedPerMinute, FailureRate: o.FailureRate,
			WaitSecondsP50: o.WaitSecondsP50, WaitSecondsP95: o.WaitSecondsP95, RenderSecondsP50: o.RenderSecondsP50,
			RenderSecondsP95:   o.RenderSecondsP95,
			PreemptionsPerHour: o.PreemptionsPerHour, RecoverySecondsP95: o.RecoverySecondsP95, GPUUtilization: o.GPUUtilization,
			CostUSDPerHour: o.CostUSDPerHour, WastedUSDPerHour: o.WastedUSDPerHour,
			CostUSDPerVideo: o.CostUSDPerVideo(), Paid: paidOf(o.Paid()), EstimatedDrainSeconds: o.Drain.Seconds,
			DrainLeavesOut: leftOutOf(o),
		}}, nil
	})
}
