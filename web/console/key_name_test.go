package console

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/reelay/reelay/features/bulk"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/joblist"
	"github.com/reelay/reelay/web/console/address"
	"github.com/stretchr/testify/require"
)

func TestKeysAreNamed(t *testing.T) {
	t.Parallel()
	b := admin(t)
	b.SeedCatalogue(t)
	s := b.schedule(t, "news")
	require.Equal(t, http.StatusSeeOther, b.post(t, address.Schedule(s.ID)+"/pause", url.Values{"reason": {"holidays"}}).Status)
	worker, job := b.Worker(t, "one"), b.Submit(t)
	enrolled, err := b.Reads.Fleet.WorkersByID(t.Context(), []models.WorkerID{worker.WorkerID})
	require.NoError(t, err)
	_, err = b.Operator.SetJobTier(t.Context(), b.Admin, job.ID, models.TierBatch)
	require.NoError(t, err)
	operation, err := b.Bulk.Start(t.Context(), b.Admin, bulk.Request{Action: joblist.BulkCancel, IDs: []models.JobID{job.ID}})
	require.NoError(t, err)
	jobstest.FinishBulk(t, b.Stack, operation.ID)
	require.Equal(t, http.StatusSeeOther, b.post(t, "/models/apply", url.Values{"source": {ownModel}, "confirmed": {"yes"}}).Status)
	for _, name := range []string{"fast", "own"} {
		require.Equal(t, "/models", b.post(t, "/models/show/"+name+"/remove", nil).Header.Get("Location"))
	}
	named := func(id models.KeyID, name string) string { return `title="` + string(id) + `">` + name + `</span>` }
	actor := named(b.Admin.KeyID, "test ADMIN")

	for path, want := range map[string][]string{
		"/models":                             {actor},
		"/models/show/own?version=1":          {"by <span " + actor},
		address.Schedule(s.ID):                {"by <span " + actor + ": holidays", named(s.CreatedBy, "test CLIENT")},
		"/workers/" + string(worker.WorkerID): {named(enrolled[0].EnrolmentKeyID, "test WORKER")},
		"/bulk/" + string(operation.ID):       {actor},
		string(address.Job(job.ID)):           {named(job.CreatedBy, "test CLIENT"), "Cancelled by", actor, "by</span>   <span " + actor},
	} {
		page := b.page(t, path)
		for _, part := range want {
			require.Contains(t, page, part, path)
		}
		require.NotContains(t, page, ">key…", path)
		require.NotContains(t, page, ">key_", path)
	}
}
