package change_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestCanMove(t *testing.T) {
	t.Parallel()

	t.Run("MatchesTheDiagram", func(t *testing.T) {
		t.Parallel()

		drawn := diagram(t, "## Job")

		for _, from := range models.JobStatuses {
			for _, to := range models.JobStatuses {
				require.Equal(t, drawn[edge{string(from), string(to)}], change.CanMove(from, to), "%s to %s", from, to)
			}
			require.Equal(t, drawn[edge{string(from), "[*]"}], from.Terminal(), "the end of %s", from)
		}
	})
}

func TestCanWorkerMove(t *testing.T) {
	t.Parallel()

	t.Run("MatchesTheDiagram", func(t *testing.T) {
		t.Parallel()

		drawn := diagram(t, "## Worker")

		all := []models.WorkerStatus{
			models.WorkerBooting, models.WorkerIdle, models.WorkerBusy, models.WorkerDraining, models.WorkerLost, models.WorkerTerminated,
		}
		for _, from := range all {
			for _, to := range all {
				require.Equal(t, drawn[edge{string(from), string(to)}], change.CanWorkerMove(from, to), "%s to %s", from, to)
			}
		}
	})
}

type edge struct{ from, to string }

var arrow = regexp.MustCompile(`(?m)^\s*(\S+) --> (\S+)$`)

// diagram reads the edges of the first diagram under a heading of docs/developers/states.md.
func diagram(t *testing.T, heading string) map[edge]bool {
	t.Helper()
	page, err := os.ReadFile("../../docs/developers/states.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(page), heading+"\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	edges := map[edge]bool{}
	for _, m := range arrow.FindAllStringSubmatch(section, -1) {
		edges[edge{m[1], m[2]}] = true
	}
	require.NotEmpty(t, edges)
	return edges
}

func TestVerb(t *testing.T) {
	t.Parallel()

	lost := apierror.CodeLeaseLost
	all := func(codes map[string]apierror.Code) map[string]apierror.Code {
		expected := map[string]apierror.Code{}
		for name := range jobstest.FencedVerbs {
			expected[name] = lost
		}
		for name, code := range codes {
			expected[name] = code
		}
		return expected
	}
	for name, c := range map[string]struct {
		end      func(t *testing.T, s *jobstest.Stack, p jobs.Principal, f lease.Fence, o jobstest.Uploads) error
		status   models.JobStatus
		expected map[string]apierror.Code // "" means the same answer again
		cancel   apierror.Code
	}{
		"Completed": {jobstest.FencedVerbs["Complete"], models.JobCompleted, all(map[string]apierror.Code{"Complete": ""}),
			apierror.CodeConflict},
		"Failed": {func(t *testing.T, s *jobstest.Stack, p jobs.Principal, f lease.Fence, _ jobstest.Uploads) error {
			_, err := s.Attempts.Fail(t.Context(), p, f, lease.Failure{Class: models.FailContentPolicy, Message: "refused"})
			return err
		}, models.JobFailed, all(map[string]apierror.Code{"Fail": ""}), apierror.CodeConflict},
		"Scheduled": {jobstest.FencedVerbs["Fail"], models.JobScheduled, all(map[string]apierror.Code{"Fail": ""}), "none"},
		"Queued":    {jobstest.FencedVerbs["Release"], models.JobQueued, all(map[string]apierror.Code{"Release": ""}), "none"},
		"Reaped": {func(t *testing.T, s *jobstest.Stack, _ jobs.Principal, f lease.Fence, _ jobstest.Uploads) error {
			s.ExpireLease(t, f.AttemptID)
			_, err := s.Reaper.Reap(t.Context())
			return err
		}, models.JobQueued, all(nil), "none"},
		"Cancelled": {func(t *testing.T, s *jobstest.Stack, p jobs.Principal, f lease.Fence, _ jobstest.Uploads) error {
			held, err := models.GetAttempt(t.Context(), s.DB, f.AttemptID)
			require.NoError(t, err)
			_, err = s.Canceller.Cancel(t.Context(), s.Client, held.JobID)
			require.NoError(t, err)
			_, err = s.Attempts.Release(t.Context(), p, f, models.FailPreempted)
			return err
		}, models.JobCancelled, all(map[string]apierror.Code{"Complete": apierror.CodeConflict, "Fail": "", "Release": ""}), ""},
	} {
		t.Run("ChangesNothingIfTheJobIs"+name, func(t *testing.T) {
			t.Parallel()

			s := jobstest.New(t)
			job := s.Submit(t)
			worker := s.Worker(t, "one")
			_, fence := s.Lease(t, worker)
			o := jobstest.UploadAll(t, s, worker, fence)
			require.NoError(t, c.end(t, s, worker, fence, o))
			require.Equal(t, c.status, s.Reload(t, job.ID).Status)
			before := s.Dump(t)

			for verb, call := range jobstest.FencedVerbs {
				err := call(t, s, worker, fence, o)
				if c.expected[verb] == "" {
					require.NoError(t, err, verb)
				} else {
					jobstest.RequireCode(t, err, c.expected[verb])
				}
				require.Equal(t, before, s.Dump(t), verb)
			}
			if c.cancel != "none" {
				_, err := s.Canceller.Cancel(t.Context(), s.Client, job.ID)
				if c.cancel == "" {
					require.NoError(t, err)
				} else {
					jobstest.RequireCode(t, err, c.cancel)
				}
				require.Equal(t, before, s.Dump(t), "cancel")
			}
			s.RequireInvariants(t)
		})
	}
}
