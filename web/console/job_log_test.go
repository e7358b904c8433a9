package console

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// hugeLog is a store whose logs are 64 MB of coloured lines. It counts what is read of them.
type hugeLog struct{ read int64 }

const (
	hugeLogLine = "\x1b[31mERROR\x1b[0m <script>alert(1)</script> \u202eloss\n"
	hugeLogSize = int64(64 << 20)
)

func (h *hugeLog) OpenRange(_ context.Context, _ string, offset, size int64) (io.ReadCloser, error) {
	h.read += size
	shift := int(offset % int64(len(hugeLogLine)))
	text := strings.Repeat(hugeLogLine, int(size)/len(hugeLogLine)+2)
	return io.NopCloser(strings.NewReader(text[shift : shift+int(size)])), nil
}

// failedWithLog is a job whose only attempt failed and left a log.
func (b *browser) failedWithLog(t *testing.T, text string) (*models.Job, models.AttemptID) {
	t.Helper()
	job := b.Submit(t)
	worker := b.Worker(t, "logging")
	_, fence := b.Lease(t, worker)
	log := b.Upload(t, worker, fence, models.ArtifactLog, []byte(text))
	_, err := b.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailInvalidInput, Message: "no such style", Log: &log})
	require.NoError(t, err)
	attempts, err := b.Edges(t, job.ID).Attempts(t.Context())
	require.NoError(t, err)
	return job, attempts[0].ID
}

func TestJobLog(t *testing.T) {
	t.Parallel()

	t.Run("ShowsItWithoutEscapesAndOverwrittenLines", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		job, attempt := b.failedWithLog(t, "\x1b[1mbegin\x1b[0m <b>\nloading 10%\rloading 100%\r\nend\n")
		path := "/jobs/" + string(job.ID) + "/log/" + string(attempt)

		require.Contains(t, b.get(t, "/jobs/"+string(job.ID)).Body, `hx-get="`+path+`?part=1"`)
		require.Contains(t, b.get(t, path+"?part=1").Body, ">begin &lt;b&gt;\nloading 100%\nend\n</pre>")
		require.Contains(t, b.get(t, path+"?q=LOADING").Body, `<mark class="found">loading</mark>`)
		require.Equal(t, http.StatusNotFound, b.get(t, "/jobs/"+string(b.Submit(t).ID)+"/log/"+string(attempt)).Status, "it is another job's")
	})

	t.Run("ShowsWhatARunningAttemptSays", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		job := b.Submit(t)
		worker := b.Worker(t, "talking")
		_, fence := b.Lease(t, worker)
		path := "/jobs/" + string(job.ID) + "/log/" + string(fence.AttemptID)
		require.Contains(t, b.get(t, "/jobs/"+string(job.ID)).Body, `hx-get="`+path+`?part=1"`)
		require.Contains(t, b.get(t, path).Body, "The worker has sent no lines yet.")
		says := "\x1b[1mloading\x1b[0m <script>\n10%\r99%\n"
		_, err := b.Attempts.AppendLog(t.Context(), worker, fence, 0, says)
		require.NoError(t, err)

		page := b.get(t, path).Body

		require.Contains(t, page, ">loading &lt;script&gt;\n99%\n</pre>")
		require.Contains(t, page, "Stop following")
		have := "?have=" + strconv.Itoa(len(says)) + "&part=1"
		require.Contains(t, page, strings.ReplaceAll(path+have, "&", "&amp;"))
		require.Equal(t, http.StatusNoContent, b.get(t, path+have).Status, "there is nothing new")
		still := b.get(t, path+"?follow=0&q=LOAD").Body
		require.Contains(t, still, `<mark class="found">load</mark>`)
		require.NotContains(t, still, "every 2s")
		b.ExpireLease(t, fence.AttemptID)
		_, err = b.Reaper.Reap(t.Context())
		require.NoError(t, err)
		lost := b.get(t, path).Body
		require.Contains(t, lost, "What the worker sent before it was gone")
		require.NotContains(t, lost, "every 2s")
	})

	t.Run("ReadsOnlyPartsOfAHugeLog", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		job, attempt := b.failedWithLog(t, "x")
		b.Exec(t, "UPDATE artifacts SET size_bytes = ? WHERE type = 'LOG'", hugeLogSize)
		store, config := new(hugeLog), configure(b.Stack)
		config.Logs = store
		huge := serve(t, b.Stack, config)
		huge.logIn(t)
		path := "/jobs/" + string(job.ID) + "/log/" + string(attempt)

		page := huge.get(t, path).Body

		const part, searched = 256 << 10, 8 << 20
		require.EqualValues(t, part, store.read)
		require.Less(t, len(page), 2*part)
		require.Contains(t, page, "ERROR &lt;script&gt;alert(1)&lt;/script&gt; loss\n")
		require.NotContains(t, page, "\x1b")
		require.Regexp(t, `end=\d+`, page, "earlier lines are on another page")
		store.read = 0
		require.Contains(t, huge.get(t, path+"?q=nowhere").Body, "Search earlier lines")
		require.LessOrEqual(t, store.read, int64(searched+part))
	})
}

func TestJobRaw(t *testing.T) {
	t.Parallel()

	t.Run("HasNoSecrets", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		job, _, _ := b.resumed(t)
		b.Exec(t, "UPDATE jobs SET handle = 'outside-7' WHERE id = ?", job.ID)

		got := b.get(t, "/jobs/"+string(job.ID)+"/raw")

		require.Equal(t, "application/json; charset=utf-8", got.Header.Get("Content-Type"))
		require.Contains(t, got.Body, `"prompt": "a lighthouse in the fog"`)
		for _, secret := range []string{"fencing_token", "lease_request_id", "request_digest", "outside-7"} {
			require.NotContains(t, got.Body, secret)
		}
	})
}
