package metadata

import (
	"context"
	"os"
	"strconv"
	"time"
)

// slurmEnd is the variable in which Slurm 23.02 and newer say when the time of a job is over, in
// seconds of Unix time.
const slurmEnd = "SLURM_JOB_END_TIME"

// watchSlurm tells of the end of the Slurm job that this process belongs to, Notice before it. A
// job whose time is changed while it runs has the old end: an agent then leaves too early, or by
// SIGTERM. Outside of Slurm it does nothing.
func (w Watcher) watchSlurm(ctx context.Context, tell func(Notice)) {
	text := os.Getenv(slurmEnd)
	if text == "" {
		return
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	end := time.Unix(seconds, 0)
	// A year is longer than the time of any job. What is past was inherited from another job.
	if left := time.Until(end); err != nil || left <= 0 || left > 366*24*time.Hour {
		w.Log.Warn("the end of this Slurm job cannot be used: only its SIGTERM gives notice", "variable", slurmEnd, "value", text[:min(len(text), 40)])
		return
	}
	if left := time.Until(end); left <= w.Notice {
		w.Log.Warn("this worker leaves at once: what is left of its Slurm job is not longer than the notice that it wants. "+
			"Give the job more time, or lower REELAY_AGENT_NOTICE", "end", end, "left", left.Round(time.Second), "notice", w.Notice)
	} else {
		w.Log.Info("this worker leaves before the time of its Slurm job is over", "end", end)
	}
	if sleep(ctx, time.Until(end.Add(-w.Notice))) {
		tell(Notice{Reason: "the time of this Slurm job is over", Deadline: end})
	}
}
