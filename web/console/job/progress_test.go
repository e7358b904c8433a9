package job

import (
	"testing"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/ui"
	"github.com/stretchr/testify/require"
)

func TestJobView_Progress(t *testing.T) {
	t.Parallel()

	t.Run("HasDoneAllFramesOnceItIsCompleted", func(t *testing.T) {
		t.Parallel()

		v := &jobView{Job: &models.Job{Status: models.JobRunning}}
		require.Empty(t, v.doneOf(nil, new(48)))
		require.Equal(t, "47 of 48", v.doneOf(new(47), new(48)))
		v.Status = models.JobCompleted
		require.Equal(t, "48 of 48", v.doneOf(new(47), new(48)))
		require.Equal(t, "47 of n/a", v.doneOf(new(47), nil))
	})

	t.Run("MarksWhereItResumedAfterTheCheckpointIsDeleted", func(t *testing.T) {
		t.Parallel()

		v := &jobView{
			Job:      &models.Job{Progress: models.Progress{TotalSteps: new(10)}},
			Attempts: []*models.Attempt{{AttemptNo: 1}, {AttemptNo: 2, ResumedFromStep: new(4)}},
		}

		require.Equal(t, []ui.Mark{{Percent: 40, Strong: true, Title: "Attempt 2 resumed at step 4"}}, v.marks())
		require.True(t, v.marked(true))
		require.False(t, v.marked(false), "a legend explains what the bar shows")
	})
}
