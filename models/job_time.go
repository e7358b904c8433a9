package models

import (
	"math"
	"time"
)

// JobTime is where the time of a job's run went, in seconds, until now or its end. TotalSeconds is the
// sum of the others.
type JobTime struct {
	// The run was delayed before it was due and while it was BLOCKED, queued while it waited for a
	// worker, paused while its queue was closed, backed off between failures and their retries, and
	// held while workers had it.
	DelayedSeconds, QueuedSeconds, PausedSeconds, BackoffSeconds, HeldSeconds, TotalSeconds float64
}

// Delay counts the time of SCHEDULED or BLOCKED that ends when the job becomes to, and notes the
// begin of one.
func (j *Job) Delay(to JobStatus, now time.Time) {
	if j.Status.delays() {
		seconds := j.delayed(now)
		if j.backsOff() {
			j.BackoffSeconds += seconds
		} else {
			j.DelayedSeconds += seconds
		}
	}
	if to.delays() {
		j.DelayedAt = now
	}
}

// backsOff reports whether a job that is SCHEDULED waits for a retry, rather than to be due.
func (j *Job) backsOff() bool {
	return j.Status == JobScheduled && j.LeasedSeconds != nil && *j.LeasedSeconds > 0
}

// delays reports whether a job with this status waits for a time or for other jobs.
func (s JobStatus) delays() bool { return s == JobScheduled || s == JobBlocked }

// delayed is how long the job has been SCHEDULED or BLOCKED.
func (j *Job) delayed(now time.Time) float64 {
	since := j.DelayedAt
	if since.IsZero() {
		since = j.CreatedAt
	}
	if since.IsZero() { // the row is not written yet
		return 0
	}
	return *addSince(new(0.0), since, now)
}

// Time returns where the time of the job's run went. paused is how long the queue was closed in
// the current wait of a job that is QUEUED. It returns nil if that is unknown.
func (j *Job) Time(now time.Time, paused float64) *JobTime {
	queued, held := j.Waited(now), j.Ran(now)
	if queued == nil || held == nil {
		return nil
	}
	t := &JobTime{DelayedSeconds: j.DelayedSeconds, PausedSeconds: j.PausedSeconds, BackoffSeconds: j.BackoffSeconds, HeldSeconds: *held}
	switch {
	case j.Status == JobQueued:
		t.PausedSeconds += paused
	case j.backsOff():
		t.BackoffSeconds += j.delayed(now)
	case j.Status.delays():
		t.DelayedSeconds += j.delayed(now)
	}
	t.PausedSeconds = min(t.PausedSeconds, *queued)
	t.QueuedSeconds = *queued - t.PausedSeconds
	for _, part := range []*float64{&t.DelayedSeconds, &t.QueuedSeconds, &t.PausedSeconds, &t.BackoffSeconds, &t.HeldSeconds} {
		*part = math.Round(1000*max(*part, 0)) / 1000
		t.TotalSeconds += *part
	}
	t.TotalSeconds = math.Round(1000*t.TotalSeconds) / 1000
	return t
}
