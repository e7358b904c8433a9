package jobs

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/progress"
	"github.com/reelay/reelay/internal/text"
	"github.com/samber/lo"
	"github.com/spf13/cobra"
)

// explanation is what `reelay explain` prints.
type explanation struct {
	ID     string           `json:"id"`
	Status client.JobStatus `json:"status"`
	// Why says why the job waits, failed or was cancelled, the most important reason first.
	Why []string `json:"why"`
	// Routes are the changes of its model, the oldest first.
	Routes []client.JobRoute `json:"routes"`
	// Change says what would change that.
	Change []string `json:"change"`
	// Placements are where workers can run it, the preferred place first, for operators and viewers.
	Placements []client.Placement `json:"placements"`
	// Needs says what a worker must have to run it.
	Needs []string `json:"needs"`
	// Next says what happens next, and what its owner can do.
	Next []string `json:"next"`
}

// ExplainCommand returns `reelay explain`.
func ExplainCommand() *cobra.Command {
	call := &connect.Call{Kind: "job"}
	return call.Command(&cobra.Command{
		Use:        "explain JOB",
		SuggestFor: []string{"why", "diagnose"},
		Short:      "Say why a job waits or failed, what it needs, what happens next, and what each pool costs for it",
		Example:    "  reelay explain job_01937d3e\n  reelay explain job_01937d3e --jq '.why[]'",
		Args:       JobArg,
	}, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		job, err := c.JobHistory(ctx, args[0])
		if err != nil {
			return nil, nil, err
		}
		e := explainJob(job, time.Now())
		return e, printJobExplanation(e), nil
	})
}

// explainJob explains a job as it is at a time.
func explainJob(job *client.JobHistory, now time.Time) explanation {
	e := explanation{ID: job.Id, Status: job.Status, Why: []string{}, Change: []string{}, Needs: []string{}, Next: []string{},
		Routes: append([]client.JobRoute{}, job.Routes...), Placements: job.Placements}
	next := func(format string, args ...any) { e.Next = append(e.Next, fmt.Sprintf(format, args...)) }
	e.Why = append(e.Why, waiting(job)...)
	for _, reason := range job.WaitingFor {
		next("%s", reason.Consequence)
		e.Change = append(e.Change, reason.Change)
	}
	switch job.Status {
	case client.JobStatusFailed:
		e.Why = append(e.Why, progress.Failure(&job.Job))
		next("Nothing: it is not retried. `reelay retry %s` runs it again.", job.Id)
		if len(job.Attempts) > 0 {
			next("`reelay logs %s` prints the log of its last attempt.", job.Id)
		}
	case client.JobStatusCancelled:
		why := "It was cancelled."
		if c := job.Cancellation; c != nil && c.By != "" {
			why = strings.TrimSuffix("It was cancelled by "+c.By+": "+lo.FromPtrOr(c.Reason, ""), ": ")
		}
		e.Why = append(e.Why, why)
		next("Nothing. `reelay retry %s` runs it again.", job.Id)
	case client.JobStatusCompleted:
		if job.Result != nil {
			next("Nothing. `reelay download %s` fetches the video.", job.Id)
		} else {
			next("Nothing: it is done.")
		}
	default:
		e.Needs = needs(job)
		e.Next = append(e.Next, ahead(job, now)...)
	}
	return e
}

// routes says from which model to which a job went, when, and why.
func routes(all []client.JobRoute) []string {
	return lo.Map(all, func(r client.JobRoute, _ int) string {
		return fmt.Sprintf("%s until %s, then %s: %s", r.From, output.Moment(r.At), r.To, r.Reason)
	})
}

// needs says what a worker must have.
func needs(job *client.JobHistory) []string {
	all := []string{fmt.Sprintf("a worker that serves %s", job.Model)}
	if job.OnDemandOnly {
		all = append(all, "a machine that is not taken away (ON_DEMAND)")
	}
	if job.MaxPricePerHour != nil {
		all = append(all, fmt.Sprintf("a machine of at most $%.2f per hour", *job.MaxPricePerHour))
	}
	for _, d := range job.DependsOn {
		if d.Status != client.JobStatusCompleted {
			all = append(all, fmt.Sprintf("the end of %s (%s)", d.Id, strings.ToLower(string(d.Status))))
		}
	}
	return all
}

// ahead says what happens next to a job that has not ended.
func ahead(job *client.JobHistory, now time.Time) (next []string) {
	say := func(format string, args ...any) { next = append(next, fmt.Sprintf(format, args...)) }
	in := func(t time.Time) string { return text.Seconds(max(0, t.Sub(now).Seconds())) }
	switch job.Status {
	case client.JobStatusScheduled:
		switch until := untilOf(job); {
		case until == nil:
			say("It is queued when its time has come.")
		case job.AttemptNo > 0:
			say("Attempt %d of run %d is queued in %s.", job.AttemptNo+1, job.Run, in(*until))
		default:
			say("It is queued in %s.", in(*until))
		}
	case client.JobStatusBlocked:
		say("It is queued when the jobs that it depends on have completed.")
	case client.JobStatusQueued:
		switch {
		case job.EstimatedWaitSeconds != nil:
			say("A worker takes it in about %s.", text.Seconds(*job.EstimatedWaitSeconds))
		case len(job.WaitingFor) > 0 && job.WaitingFor[0].Until != nil:
			say("That can change in %s.", in(*job.WaitingFor[0].Until))
		case len(job.WaitingFor) == 0:
			say("The next free worker takes it.")
		}
	default:
		if len(job.Attempts) > 0 {
			last := job.Attempts[len(job.Attempts)-1]
			if doing := job.Progress.Message; doing != nil && *doing != "" {
				say("Now: %s.", strings.TrimSuffix(*doing, "."))
			}
			say("Attempt %d runs%s. If its worker is lost, another one %s.", last.AttemptNo, onWorker(last), lossOf(job))
		}
	}
	if t := job.EstimatedCompletionAt; t != nil {
		say("It ends in about %s.", in(*t))
	}
	if t := job.ExpiresAt; t != nil && job.StartedAt == nil {
		say("If no worker has started it in %s, it fails.", in(*t))
	}
	return next
}

// untilOf returns when the wait of a scheduled job ends, if that is known.
func untilOf(job *client.JobHistory) *time.Time {
	for _, reason := range job.WaitingFor {
		if reason.Until != nil {
			return reason.Until
		}
	}
	return job.RunAt
}

func onWorker(a client.Attempt) string {
	if a.Worker == nil {
		return ""
	}
	return " on " + workerOf(a.Worker)
}

// lossOf says what another worker does after a loss.
func lossOf(job *client.JobHistory) string {
	switch {
	case job.AtMostOnce:
		return "does not take it: it fails, since it may be started once"
	case job.HasHandle:
		return "adopts the work where it runs"
	}
	return "continues from the newest checkpoint"
}

func printJobExplanation(e explanation) output.Printer {
	return func(out io.Writer) error {
		var b strings.Builder
		fmt.Fprintf(&b, "%-8s%s\n%-8s%s\n", "job", e.ID, "status", e.Status)
		for _, part := range []struct {
			name  string
			lines []string
		}{{"why", e.Why}, {"routes", routes(e.Routes)}, {"needs", e.Needs}, {"next", e.Next}, {"change", e.Change}} {
			for _, one := range part.lines {
				fmt.Fprintf(&b, "%-8s%s\n", part.name, output.Clean(text.Clip(one, 2000)))
				part.name = ""
			}
		}
		if _, err := io.WriteString(out, b.String()); err != nil || len(e.Placements) == 0 {
			return err
		}
		fmt.Fprintln(out)
		return printPlacements(out, e.Placements)
	}
}

// printPlacements prints where a job can run, and what it costs there.
func printPlacements(out io.Writer, places []client.Placement) error {
	var rows [][]string
	for _, p := range places {
		name, note := lo.FromPtrOr(p.PoolName, "without a pool"), lo.FromPtr(p.Obstacle)
		if p.Preferred {
			note = "preferred"
		}
		if p.Here {
			note = "runs here"
		}
		rows = append(rows, []string{name, fmt.Sprint(p.Idle), fmt.Sprintf("%g", p.PricePerHourUsd), text.Seconds(p.BootSeconds),
			text.Seconds(p.LoadSeconds), text.Seconds(p.RenderSeconds), fmt.Sprintf("$%.4f", p.CostUsd), note})
	}
	return output.WriteRows(out, []string{"POOL", "IDLE", "$/HOUR", "BOOT", "LOAD", "RENDER", "COST", "NOTE"}, rows)
}
