package query_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/joblist"
	"github.com/reelay/reelay/models/webhooks"
	"github.com/stretchr/testify/require"
)

func TestCursors(t *testing.T) {
	t.Parallel()

	// first is the cursor of a list's first job.
	first := func(t *testing.T, s *jobstest.Stack, p jobs.Principal, f joblist.JobFilter) string {
		t.Helper()
		page, err := s.Reads.Jobs.List(t.Context(), p, f, paging.Request{First: 1})
		require.NoError(t, err)
		require.Equal(t, []string{page.End}, page.Cursors)
		return page.End
	}

	t.Run("AreValidOnlyForTheirList", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		for range 3 {
			s.Submit(t)
		}
		stranger := s.NewKey(t, s.NewAccount(t, "stranger", models.TierPro), access.RoleClient)
		queued := joblist.JobFilter{Status: []models.JobStatus{models.JobQueued}}
		own := first(t, s, s.Client, queued)

		page, err := s.Reads.Jobs.List(t.Context(), s.Client, queued, paging.Request{First: 200, After: own})
		require.NoError(t, err)
		require.Len(t, page.Items, 2, "the size of a page is free")
		for name, other := range map[string]struct {
			caller jobs.Principal
			filter joblist.JobFilter
		}{
			"no filter":       {s.Client, joblist.JobFilter{}},
			"another filter":  {s.Client, joblist.JobFilter{Status: []models.JobStatus{models.JobFailed}}},
			"a narrower one":  {s.Client, joblist.JobFilter{Status: queued.Status, Model: "testcard"}},
			"another search":  {s.Client, joblist.JobFilter{Status: queued.Status, Search: "tier:FREE"}},
			"another account": {stranger, queued},
			"an operator":     {s.Admin, queued},
		} {
			_, err := s.Reads.Jobs.List(t.Context(), other.caller, other.filter, paging.Request{First: 1, After: own})
			require.Error(t, err, name)
			jobstest.RequireInvalid(t, err, "after")
			require.ErrorContains(t, err, "another list", name)
		}
		_, err = s.Reads.Webhooks.Deliveries(t.Context(), s.Client, webhooks.DeliveryFilter{}, paging.Request{First: 1, After: own})
		jobstest.RequireInvalid(t, err, "after")
		_, err = s.Reads.Fleet.Workers(t.Context(), models.WorkerFilter{}, paging.Request{First: 1, After: own})
		jobstest.RequireInvalid(t, err, "after")
	})

	t.Run("OfEventsAreValidOnlyForTheirJob", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		job, other := s.Submit(t), s.Submit(t)
		pages, err := s.Edges(t, job.ID).EventPages(t.Context(), paging.Request{First: 1})
		require.NoError(t, err)
		of := paging.Request{First: 1, After: pages[job.ID].End}

		pages, err = s.Edges(t, job.ID).EventPages(t.Context(), of)
		require.NoError(t, err)
		require.Empty(t, pages[job.ID].Items)
		_, err = s.Edges(t, other.ID).EventPages(t.Context(), of)
		jobstest.RequireInvalid(t, err, "after")
		_, err = s.Reads.Jobs.List(t.Context(), s.Client, joblist.JobFilter{}, of)
		jobstest.RequireInvalid(t, err, "after")
	})

	t.Run("OutliveTheirJob", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		older, newer := s.Submit(t), s.Submit(t)
		own := first(t, s, s.Client, joblist.JobFilter{})
		_, err := s.Canceller.Cancel(t.Context(), s.Client, newer.ID)
		require.NoError(t, err)
		_, err = s.Deleter.Delete(t.Context(), s.Client, newer.ID)
		require.NoError(t, err)

		page, err := s.Reads.Jobs.List(t.Context(), s.Client, joblist.JobFilter{}, paging.Request{First: 5, After: own})

		require.NoError(t, err)
		require.Len(t, page.Items, 1)
		require.Equal(t, older.ID, page.Items[0].ID)
	})

	t.Run("AreRefusedIfMalformed", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		s.Submit(t)
		own := first(t, s, s.Client, joblist.JobFilter{})
		plain := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
		raw, err := base64.RawURLEncoding.DecodeString(own)
		require.NoError(t, err)
		digest := string(raw[:9])
		for name, after := range map[string]string{
			"no base64":       "%%%",
			"too short":       "abc",
			"nothing":         plain("2"),
			"of another form": plain("after:" + string(models.NewJobID())),
			"no mark":         plain(digest),
			"a bad mark":      plain(digest + "job_' OR 1=1 --"),
			"another kind":    plain(digest + string(models.NewWorkerID())),
			"a number":        plain(digest + "1"),
			"another digest":  plain("2" + strings.Repeat("x", 8) + string(raw[9:])),
			"padded":          own + "==",
			"with a newline":  own[:10] + "\n" + own[10:],
			"cut":             own[:len(own)-3],
			"longer":          own + "AAAA",
			"very long":       strings.Repeat("A", 1<<20),
		} {
			_, err := s.Reads.Jobs.List(t.Context(), s.Client, joblist.JobFilter{}, paging.Request{First: 1, After: after})
			require.Error(t, err, name)
			jobstest.RequireInvalid(t, err, "after")
			require.Less(t, len(err.Error()), 300, name)
		}
	})
}

// A client that returns to an ended job asks for the events after the last one.
func TestEventsAfterTheLast(t *testing.T) {
	t.Parallel()
	s := jobstest.New(t)
	job := s.Submit(t)
	_, err := s.Canceller.Cancel(t.Context(), s.Client, job.ID)
	require.NoError(t, err)
	last := int64(s.Reload(t, job.ID).EventSeq)
	send := func(e *models.JobEvent) error {
		t.Errorf("event %d was sent again", e.Seq)
		return nil
	}

	require.NoError(t, jobstest.EachEvent(t.Context(), s.Watcher, s.Client, job.ID, last, send), "the stream ends at once")
	for _, after := range []int64{-1, last + 1, 1<<31 - 1, 1<<63 - 1} {
		jobstest.RequireInvalid(t, jobstest.EachEvent(t.Context(), s.Watcher, s.Client, job.ID, after, send), "afterSeq")
	}
}

func FuzzCursor(f *testing.F) {
	job := models.NewJobID()
	f.Add(jobstest.CursorOf("job", string(job), "a filter"))
	f.Add(jobstest.CursorOf("job", string(job), "another"))
	f.Add(jobstest.CursorOf("event", "7", "a filter"))
	f.Add(base64.RawURLEncoding.EncodeToString([]byte("after:" + string(job))))
	f.Fuzz(func(t *testing.T, cursor string) {
		mark, err := jobstest.ReadCursor(cursor, "job", "a filter")

		if err != nil || cursor == "" {
			require.Empty(t, mark)
			return
		}
		require.True(t, models.JobID(mark).Valid(), "%q is nothing to ask PostgreSQL for", mark)
		require.Equal(t, cursor, jobstest.CursorOf("job", mark, "a filter"), "a mark has one cursor")
		_, err = jobstest.ReadCursor(cursor, "job", "another")
		require.Error(t, err)
	})
}
