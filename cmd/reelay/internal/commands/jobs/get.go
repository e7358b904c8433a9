package jobs

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/progress"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/reelay/reelay/internal/text"
	"github.com/samber/lo"
	"github.com/spf13/cobra"
)

// GetCommand returns `reelay get`.
func GetCommand() *cobra.Command {
	var t connect.Target
	var o output.Options
	cmd := &cobra.Command{
		Use:        "get JOB",
		SuggestFor: []string{"show", "describe", "status"},
		Short:      "Show a job, why it waits, and its attempts",
		Example: "  reelay get job_01937d3e-…\n  reelay get job_01937d3e-… --json | jq -r .result.url\n" +
			"  reelay get job_01937d3e-… --json | jq -r '.attempts[].log.url'",
		Args: JobArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.Check(); err != nil {
				return terminal.UsageError(cmd, err)
			}
			c, err := t.Client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			id, err := connect.FullID(cmd.Context(), c, "job", args[0])
			if err != nil {
				return t.Explain(err)
			}
			job, err := c.JobHistory(cmd.Context(), id)
			if err != nil {
				return t.Explain(err)
			}
			return o.Print(o.Screen(cmd, cmd.OutOrStdout()), job, func(out io.Writer) error { return printJob(out, job) })
		},
	}
	t.AddFlags(cmd)
	o.AddFlags(cmd)
	return cmd
}

func printJob(to io.Writer, job *client.JobHistory) error {
	out := bufio.NewWriter(to)
	field := func(name string, format string, args ...any) {
		fmt.Fprintf(out, "%-10s %s\n", name, output.Clean(fmt.Sprintf(format, args...)))
	}
	field("job", "%s", job.Id)
	field("status", "%s", job.Status)
	if job.Prompt != nil {
		field("prompt", "%s", output.Clip(*job.Prompt, 2000))
	}
	field("progress", "%s", progressText(&job.Job))
	for _, reason := range waiting(job) {
		field("waits", "%s", reason)
	}
	if job.Cancellation != nil {
		field("cancel", "%s", proof(job.Cancellation))
		if by := job.Cancellation.By; by != "" {
			field("asked by", "%s", strings.TrimSuffix(by+": "+lo.FromPtrOr(job.Cancellation.Reason, ""), ": "))
		}
	}
	field("model", "%s, version %d%s  %s", job.Model, job.ModelVersion, named(job.Alias), job.Params)
	field("tier", "%s, in lane %s, priority %d", job.Tier, job.Lane, job.Priority)
	field("attempts", "%d, in run %d (most failures of a run: %d)", job.AttemptNo, job.Run, job.MaxAttempts)
	if job.AtMostOnce {
		field("once", "it is never started twice: a loss of its worker ends it")
	}
	if len(job.Fallback) > 0 {
		field("fallback", "%s", strings.Join(job.Fallback, ", "))
	}
	for _, route := range routes(job.Routes) {
		field("model was", "%s", route)
	}
	for _, line := range constraints(&job.Job) {
		field("constraints", "%s", line)
	}
	if line := Infeasible(job.Deadline); line != "" {
		field("deadline", "%s", line)
	}
	if job.HasHandle {
		field("handle", "the next attempt adopts what this one runs at an external service")
	}
	if len(job.DependsOn) > 0 {
		field("after", "%s", dependencies(job.DependsOn))
	}
	field("account", "%s  %s", job.Account.Name, job.Account.Id)
	if job.UserId != nil && *job.UserId != "" {
		field("user", "%s", *job.UserId)
	}
	if job.CreatedBy != nil {
		field("by", "%s", *job.CreatedBy)
	}
	if job.IdempotencyKey != nil {
		field("key", "%s", *job.IdempotencyKey)
	}
	if job.Metadata != nil {
		field("metadata", "%s", output.Clip(string(*job.Metadata), 2000))
	}
	field("created", "%s", output.Moment(job.CreatedAt))
	if job.ExpiresAt != nil && job.StartedAt == nil && !job.Status.Terminal() {
		field("expires", "%s, if no worker has started it by then", output.Moment(*job.ExpiresAt))
	}
	if job.CompletedAt != nil {
		field("ended", "%s, %s after it was created", output.Moment(*job.CompletedAt), text.Seconds(job.CompletedAt.Sub(job.CreatedAt).Seconds()))
	}
	if job.Time != nil {
		field("times", "%s", timesOf(job.Time))
	}
	if len(job.Attempts) > 0 {
		field("cost", "%s", costOf(job))
	}
	if job.Status == client.JobStatusFailed {
		field("why", "%s", progress.Failure(&job.Job))
	}
	if job.DeletedAt != nil {
		field("deleted", "%s, with its prompt and artifacts", output.Moment(*job.DeletedAt))
	}
	if job.Result != nil {
		field("video", "%s, crc32c %s; fetch it with `reelay download %s`", output.Size(job.Result.SizeBytes), job.Result.Checksum, job.Id)
	}
	if job.Draft != nil {
		field("draft", "%s", drafted(job.Id, job.Draft))
	}
	if job.Continues != nil {
		field("continues", "%s", job.Continues.Id)
	}
	if job.ReusedFrom != nil {
		field("reused from", "%s: no worker rendered this job", *job.ReusedFrom)
	}
	if job.Output != nil {
		field("output", "%s", output.Clip(string(*job.Output), 2000))
	}
	for _, a := range job.Artifacts {
		if job.Result == nil && a.Type == client.ArtifactTypeThumbnail {
			field("picture", "%s, %s", output.Size(a.SizeBytes), a.Url)
		}
	}
	if len(job.Attempts) > 0 {
		fmt.Fprintln(out)
		header := []string{"ATTEMPT", "STATUS", "WORKER", "RESUMED FROM STEP", "GPU SECONDS", "WASTED", "LOG", "WHY"}
		if err := output.WriteRows(output.ScreenOf(to).On(out), header, attemptRows(job.Attempts)); err != nil {
			return err
		}
	}
	return out.Flush()
}

// named says by which alias a model was chosen.
func named(alias *string) string {
	if alias == nil || *alias == "" {
		return ""
	}
	return ", by the alias " + *alias
}

// dependencies lists the jobs that must complete first, with their states.
func dependencies(all []client.Dependency) string {
	var parts []string
	for _, d := range all {
		parts = append(parts, fmt.Sprintf("%s (%s)", d.Id, strings.ToLower(string(d.Status))))
	}
	return strings.Join(parts, ", ")
}

// drafted says where a draft ends, and what becomes of it.
func drafted(id string, d *client.Draft) string {
	text := fmt.Sprintf("ends after step %d", d.Steps)
	switch {
	case d.ContinuedBy != nil:
		text += "; its video is " + d.ContinuedBy.Id
	case d.KeptUntil != nil:
		text += fmt.Sprintf("; kept until %s: make its video with `reelay continue %s`", output.Moment(*d.KeptUntil), id)
	}
	return text
}

// progressText returns the job's progress, or its progress when it ended.
func progressText(job *client.Job) string {
	p := job.Progress
	switch {
	case job.Status == client.JobStatusFailed:
		return fmt.Sprintf("%.0f %% when it failed", p.Percent)
	case job.Status == client.JobStatusCancelled:
		return fmt.Sprintf("%.0f %% when it was cancelled", p.Percent)
	case job.Cancellation != nil:
		p.Message = nil // the cancel line says more
	}
	return fmt.Sprintf("%.0f %%  %s", p.Percent, progress.Describe(p))
}

// waiting returns the reasons why a job waits, the most important first.
func waiting(job *client.JobHistory) []string {
	switch job.Status {
	case client.JobStatusScheduled, client.JobStatusBlocked, client.JobStatusQueued:
	default:
		return nil
	}
	if len(job.WaitingFor) == 0 {
		return []string{"Nothing holds it back. It is about to proceed."}
	}
	var reasons []string
	for _, reason := range job.WaitingFor {
		message := reason.Message
		if reason.Cause != nil {
			says := " It says: "
			if reason.Code == client.WaitingCodeCapacityNotBooting {
				says = " The newest: "
			}
			message += says + output.Clean(*reason.Cause)
		}
		reasons = append(reasons, message)
	}
	return reasons
}

// proof describes how far a cancellation is, and how long after the request each step
// came.
func proof(c *client.Cancellation) string {
	steps := []string{"asked " + output.Moment(c.RequestedAt)}
	add := func(what string, at *time.Time) {
		steps = append(steps, fmt.Sprintf("%s after %.1f s", what, at.Sub(c.RequestedAt).Seconds()))
	}
	switch {
	case c.DeliveredAt != nil:
		add("worker told", c.DeliveredAt)
	case c.StoppedAt == nil:
		steps = append(steps, "its worker is being told")
	}
	switch {
	case c.StoppedAt != nil:
		add("stopped", c.StoppedAt)
	case c.DeliveredAt != nil:
		steps = append(steps, "it is stopping")
	}
	return strings.Join(steps, " · ")
}

// workerOf names a worker: by its machine for those who may know it, else by its id.
func workerOf(w *client.AttemptWorker) string { return output.Clean(lo.FromPtrOr(w.Name, w.Id)) }

func attemptRows(attempts []client.Attempt) [][]string {
	var rows [][]string
	for _, a := range attempts {
		worker, log := "-", "-"
		if a.Worker != nil {
			worker = workerOf(a.Worker)
		}
		if a.Log != nil {
			log = output.Size(a.Log.SizeBytes)
		}
		rows = append(rows, []string{
			fmt.Sprint(a.AttemptNo), string(a.Status), worker, output.OrDash(a.ResumedFromStep),
			fmt.Sprintf("%.1f", a.GpuSeconds), fmt.Sprintf("%.1f", a.WastedGpuSeconds), log,
			output.Clip(progress.Cause(a.FailureClass, a.FailureReason), 80),
		})
	}
	return rows
}

// costOf says what the account pays, and for operators what it does not.
func costOf(job *client.JobHistory) string {
	all := "unknown"
	if job.CostUsd != nil {
		all = text.USD(*job.CostUsd)
	}
	if rest := job.OperatorCostUsd; rest != nil && *rest > 0 {
		all += ", and " + text.USD(*rest) + " that the account does not pay"
	}
	if why := lo.FromPtr(job.CostUnknown); why != "" {
		all += lo.Ternary(job.CostUsd == nil, ", since ", ", without what is unknown, since ") + output.Clean(why)
	}
	if job.EstimatedCostUsd != nil {
		all += " (estimated at " + text.USD(*job.EstimatedCostUsd) + ")"
	}
	return all
}

// timesOf says where the time of a run went. The parts add up to the total.
func timesOf(t *client.JobTime) string {
	parts := []string{"queued for " + text.Seconds(t.QueuedSeconds), "held by workers for " + text.Seconds(t.HeldSeconds)}
	for _, part := range []struct {
		name    string
		seconds float64
	}{{"queue paused for", t.PausedSeconds}, {"pauses before retries", t.BackoffSeconds}, {"not due or blocked for", t.DelayedSeconds}} {
		if part.seconds > 0 {
			parts = append(parts, part.name+" "+text.Seconds(part.seconds))
		}
	}
	return strings.Join(parts, ", ") + "; together " + text.Seconds(t.TotalSeconds)
}
