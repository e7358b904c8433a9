package jobs_test

import (
	"testing"

	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// enough is the number of steps in which every kind of event must have occurred. Fewer steps
// may miss one: rapid chooses the length of histories.
const enough = 2_000

func TestModel(t *testing.T) {
	t.Parallel()

	t.Run("AgreesWithTheReferenceAfterEveryStep", func(t *testing.T) {
		t.Parallel()

		ended := map[models.JobStatus]int{}
		steps, stale, children := 0, 0, 0
		rapid.Check(t, func(rt *rapid.T) {
			r := newReference(t)
			rt.Repeat(map[string]func(*rapid.T){
				"": func(rt *rapid.T) { steps++; r.agrees(rt) },

				"submit": r.submit, "submit too": r.submit, "submit again": r.submitAgain,
				"lease": r.lease, "lease too": r.lease, "lease three": r.lease,
				"heartbeat": r.heartbeat, "progress": r.progress, "checkpoint": r.checkpoint, "reject": r.reject,
				"complete": r.complete, "complete too": r.complete, "fail": r.fail, "release": r.release, "foreign": r.foreign,
				"cancel": r.cancel, "retry": r.retry, "reap": r.reap, "due": r.due,
				"terminate": r.terminate, "drain": r.drain, "silent": r.silent, "redis": r.redis,
			})
			for _, job := range r.jobs {
				ended[job.status]++
				children += len(job.parents)
			}
			for _, l := range r.leases {
				if l.ended == models.AttemptLost {
					stale++
				}
			}
		})
		if steps < enough {
			return
		}
		for _, status := range []models.JobStatus{models.JobCompleted, models.JobFailed, models.JobCancelled} {
			require.Positive(t, ended[status], "no job was ever %s: the test tried too little", status)
		}
		require.Positive(t, stale, "no lease was ever lost: the test tried too little")
		require.Positive(t, children, "no job ever depended on another: the test tried too little")
	})
}
