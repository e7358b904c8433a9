package client_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/coder/websocket/wsjson"
	"github.com/reelay/reelay/client"
	"github.com/stretchr/testify/require"
)

func TestJobEvents(t *testing.T) {
	t.Parallel()

	t.Run("GoesOnBehindTheNewestEventOnANewConnection", func(t *testing.T) {
		t.Parallel()
		const last = 5
		asked := make(chan int, 10)
		c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
			conn, subscribe := acceptFrame(w, r)
			defer conn.CloseNow()
			var payload struct {
				Variables struct{ AfterSeq int }
			}
			_ = json.Unmarshal(subscribe.Payload, &payload)
			asked <- payload.Variables.AfterSeq
			for seq := payload.Variables.AfterSeq + 1; seq <= min(payload.Variables.AfterSeq+2, last); seq++ {
				event := json.RawMessage(fmt.Sprintf(`{"data":{"jobEvents":{"seq":%d,"type":"PROGRESS"}}}`, seq))
				_ = wsjson.Write(r.Context(), conn, frame{ID: "1", Type: "next", Payload: event})
			}
			if payload.Variables.AfterSeq+2 >= last {
				_ = wsjson.Write(r.Context(), conn, frame{ID: "1", Type: "complete"})
				<-conn.CloseRead(r.Context()).Done()
			}
		})

		var seen []int
		for event, err := range c.JobEvents(t.Context(), "job_1", 0) {
			if err != nil {
				require.Equal(t, client.CodeUnavailable, client.ErrorCode(err))
				continue
			}
			seen = append(seen, event.Seq)
		}

		require.Equal(t, []int{1, 2, 3, 4, 5}, seen)
		close(asked)
		var from []int
		for seq := range asked {
			from = append(from, seq)
		}
		require.Equal(t, []int{0, 2, 4}, from)
	})
}

func TestJobChanges(t *testing.T) {
	t.Parallel()

	t.Run("SaysWhenSomeMayBeMissingAndGoesOn", func(t *testing.T) {
		t.Parallel()
		asked := make(chan string, 10)
		c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
			conn, subscribe := acceptFrame(w, r)
			defer conn.CloseNow()
			var payload struct{ Variables json.RawMessage }
			_ = json.Unmarshal(subscribe.Payload, &payload)
			asked <- string(payload.Variables)
			change := json.RawMessage(`{"data":{"jobChanges":{"id":"job_1","status":"RUNNING"}}}`)
			_ = wsjson.Write(r.Context(), conn, frame{ID: "1", Type: "next", Payload: change})
		})

		var seen []string
		for job, err := range c.JobChanges(t.Context(), client.JobFilter{Model: new("testcard")}) {
			if err != nil {
				seen = append(seen, string(client.ErrorCode(err)))
				continue
			}
			seen = append(seen, string(job.Status))
			if len(seen) > 2 {
				break
			}
		}

		require.Equal(t, []string{"RUNNING", "UNAVAILABLE", "RUNNING"}, seen)
		for range 2 {
			require.JSONEq(t, `{"filter": {"model": "testcard"}}`, <-asked)
		}
	})
}
