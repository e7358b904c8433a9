package console

import (
	"testing"

	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// Fifty viewers see a change, and the database is asked far less than once for each.
func TestLivePagesShareTheirReads(t *testing.T) {
	t.Parallel()

	const viewers = 50
	for name, path := range map[string]func(job *models.Job) string{
		"Overview": func(*models.Job) string { return "/overview/live" },
		"Jobs":     func(*models.Job) string { return "/jobs/live" },
		"Workers":  func(*models.Job) string { return "/workers/live" },
		"Queues":   func(*models.Job) string { return "/queues/live" },
		"Job":      func(job *models.Job) string { return "/jobs/" + string(job.ID) + "/live" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			stack := jobstest.New(t)
			config := configure(stack)
			config.CheckLoginsEvery = testrun.WaitLimit // fifty viewers would read it all of the time
			b := serve(t, stack, config)
			b.logIn(t)
			count := &jobstest.QueryCount{}
			b.ReadOver(b.DB.WithQueryHook(count))
			job := b.Submit(t)
			var open []<-chan string
			for range viewers {
				open = append(open, b.stream(t, path(job), ""))
			}
			for _, events := range open {
				require.NotEmpty(t, <-events)
			}
			count.N.Store(0)

			b.Lease(t, b.Worker(t, "first"))
			for _, events := range open {
				require.NotEmpty(t, <-events)
			}

			require.Less(t, count.N.Load(), int64(viewers), "each viewer would read at least once")
		})
	}
}
