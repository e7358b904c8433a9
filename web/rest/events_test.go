package rest_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// sse is one server-sent event.
type sse struct{ id, event, data string }

// follower reads a stream.
type follower struct {
	*http.Response
	lines *bufio.Scanner
}

func (a *api) follow(t *testing.T, id models.JobID, last string) *follower {
	t.Helper()
	header := http.Header{"Accept": {"text/event-stream"}}
	if last != "" {
		header.Set("Last-Event-ID", last)
	}
	res := a.request(t, http.MethodGet, videos+"/"+string(id)+"/events", "", header)
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
	return &follower{res, bufio.NewScanner(res.Body)}
}

// next returns the next event, or false at the end.
func (f *follower) next(t *testing.T) (sse, bool) {
	t.Helper()
	var e sse
	for f.lines.Scan() {
		name, value, _ := strings.Cut(f.lines.Text(), ": ")
		switch {
		case name == "id":
			e.id = value
		case name == "event":
			e.event = value
		case name == "data":
			e.data = value
		case name == "" && e.id != "":
			return e, true
		}
	}
	return e, false
}

func (f *follower) rest(t *testing.T) []sse {
	t.Helper()
	var all []sse
	for {
		e, ok := f.next(t)
		if !ok {
			return all
		}
		all = append(all, e)
	}
}

func TestListEvents(t *testing.T) {
	t.Parallel()

	a := newAPI(t)
	job := a.completed(t)
	path := videos + "/" + string(job.ID) + "/events"

	got := a.get(t, path)

	require.Equal(t, http.StatusOK, got.status, got.raw)
	listed := got.body["events"].([]any)
	require.Len(t, listed, job.EventSeq)
	require.Equal(t, false, got.body["more"])
	for i, e := range listed {
		require.InDelta(t, i+1, e.(map[string]any)["seq"], 0)
	}
	first := listed[0].(map[string]any)
	require.Equal(t, "QUEUED", first["type"])
	require.Nil(t, first["attempt_id"])
	require.Equal(t, map[string]any{"lane": "ENTERPRISE"}, first["payload"])
	require.Contains(t, listed[1].(map[string]any)["attempt_id"], "att_")
	after := a.get(t, path+"?after=2")
	require.Len(t, after.body["events"], job.EventSeq-2)
	require.Equal(t, []any{}, a.get(t, path+"?after=999").body["events"])
	require.Equal(t, "INVALID_INPUT after", a.get(t, path+"?after=-1").code())
	require.Equal(t, "INVALID_INPUT after", a.get(t, path+"?after=x").code())

	a.Exec(t, `INSERT INTO job_events (job_id, seq, run, type, payload, created_at)
		SELECT ?, seq, 1, 'PROGRESS', '{}', now() FROM generate_series(?::int, 1200) seq`, job.ID, job.EventSeq+1)
	page := a.get(t, path)
	require.Len(t, page.body["events"], 1000)
	require.Equal(t, true, page.body["more"])
	require.Len(t, a.get(t, path+"?after=1000").body["events"], 200)
}

func TestFollowEvents(t *testing.T) {
	t.Parallel()

	t.Run("SendsEachEventOnceAndEndsWithTheJob", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		job := a.Submit(t)
		stream := a.follow(t, job.ID, "")
		first, ok := stream.next(t)
		require.True(t, ok)
		require.Equal(t, "1", first.id)
		require.Equal(t, "QUEUED", first.event)
		worker := a.Worker(t, "one")
		_, fence := a.Lease(t, worker)
		second, ok := stream.next(t)
		require.True(t, ok)
		require.Equal(t, "LEASED", second.event)
		again := a.follow(t, job.ID, "1")

		done := a.finish(t, worker, fence)

		for got, from := range map[*follower]int{stream: 3, again: 2} {
			all := got.rest(t)
			require.Len(t, all, done.EventSeq-from+1)
			for i, e := range all {
				require.Equal(t, strconv.Itoa(from+i), e.id)
				var data map[string]any
				require.NoError(t, json.Unmarshal([]byte(e.data), &data))
				require.Equal(t, e.event, data["type"])
			}
			require.Equal(t, "COMPLETED", all[len(all)-1].event)
		}
		over := a.ask(t, http.MethodGet, videos+"/"+string(job.ID)+"/events", "",
			http.Header{"Accept": {"text/event-stream"}, "Last-Event-ID": {strconv.Itoa(done.EventSeq)}})
		require.Equal(t, http.StatusNoContent, over.status)
	})

	t.Run("RefusesAnUnknownSeq", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		job := a.Submit(t)
		for _, last := range []string{"2", "-1", "x", "1.0", "+1", "99999999999999999999", strings.Repeat("1", 300), "é"} {
			got := a.ask(t, http.MethodGet, videos+"/"+string(job.ID)+"/events", "",
				http.Header{"Accept": {"text/event-stream"}, "Last-Event-ID": {last}})
			require.Equal(t, http.StatusUnprocessableEntity, got.status, last)
			require.Equal(t, "INVALID_INPUT Last-Event-ID", got.code())
		}
	})

	t.Run("EndsWhenTheKeyIsRevoked", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		job := a.Submit(t)
		stream := a.follow(t, job.ID, "")
		_, ok := stream.next(t)
		require.True(t, ok)

		require.NoError(t, a.Keys.Revoke(t.Context(), a.Admin, a.Client.KeyID))

		require.Empty(t, stream.rest(t))
		got := a.get(t, videos+"/"+string(job.ID))
		require.Equal(t, http.StatusUnauthorized, got.status)
	})

	t.Run("EndsWithTheProcess", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		job := a.Submit(t)
		stream := a.follow(t, job.ID, "")
		_, ok := stream.next(t)
		require.True(t, ok)

		a.restart()

		_, err := io.ReadAll(stream.Body)
		require.NoError(t, err)
	})
}

func TestWait(t *testing.T) {
	t.Parallel()

	t.Run("WaitsUntilTheEnd", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		job := a.Submit(t)
		worker := a.Worker(t, "one")
		_, fence := a.Lease(t, worker)
		held := make(chan answer)
		for _, path := range []string{videos + "/", "/api/v1/jobs/"} {
			go func() { held <- a.get(t, path+string(job.ID)+"?wait=15") }()
		}

		a.finish(t, worker, fence)

		for range 2 {
			require.Equal(t, "completed", (<-held).body["status"])
		}
	})

	t.Run("ReturnsTheJobAfterTheWait", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		job := a.Submit(t)

		got := a.get(t, videos+"/"+string(job.ID)+"?wait=1")

		require.Equal(t, http.StatusOK, got.status)
		require.Equal(t, "queued", got.body["status"])
	})

	t.Run("DoesNotDelayShutdown", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		job := a.Submit(t)
		looked := make(chan struct{})
		a.Watcher.Notifications = &subscribed{a.Watcher.Notifications, looked}
		held := make(chan answer)
		go func() { held <- a.get(t, videos+"/"+string(job.ID)+"?wait=60") }()
		<-looked

		a.restart()

		got := <-held
		if got.status != http.StatusServiceUnavailable { // it ended before the first look
			require.Equal(t, http.StatusOK, got.status, got.raw)
			require.Equal(t, "queued", got.body["status"])
		}
	})

	t.Run("EndsWhenTheKeyIsRevoked", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		job := a.Submit(t)
		looked := make(chan struct{})
		a.Watcher.Notifications = &subscribed{a.Watcher.Notifications, looked}
		held := make(chan answer)
		go func() { held <- a.get(t, videos+"/"+string(job.ID)+"?wait=60") }()
		<-looked

		require.NoError(t, a.Keys.Revoke(t.Context(), a.Admin, a.Client.KeyID))

		require.Equal(t, "UNAUTHENTICATED", (<-held).code())
	})

	t.Run("RefusesInvalidTimes", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		job := a.Submit(t)
		for _, wait := range []string{"-1", "61", "x", "1e1", "1.5", "99999999999999999999"} {
			got := a.get(t, videos+"/"+string(job.ID)+"?wait="+wait)
			require.Equal(t, http.StatusUnprocessableEntity, got.status, wait)
			require.Equal(t, "INVALID_INPUT wait", got.code(), wait)
		}
	})
}

// subscribed reports when there is a subscriber.
type subscribed struct {
	jobs.Notifications
	looked chan struct{}
}

// Subscribe implements jobs.Notifications.
func (s *subscribed) Subscribe(ctx context.Context, id string, told func()) (stop func()) {
	defer close(s.looked)
	return s.Notifications.Subscribe(ctx, id, told)
}
