package client_test

import (
	"encoding/json"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/reelay/reelay/client"
	"github.com/stretchr/testify/require"
)

// frame is a message of graphql-transport-ws.
type frame struct {
	ID      string          `json:"id,omitempty"`
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

// accept takes one subscription and returns its socket.
func accept(w http.ResponseWriter, r *http.Request) *websocket.Conn {
	conn, _ := acceptFrame(w, r)
	return conn
}

// acceptFrame is accept, and returns what was asked for too.
func acceptFrame(w http.ResponseWriter, r *http.Request) (*websocket.Conn, frame) {
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"graphql-transport-ws"}})
	if err != nil {
		return nil, frame{}
	}
	var hello, subscribe frame
	_ = wsjson.Read(r.Context(), conn, &hello)
	if string(hello.Payload) != `{"authorization":"Bearer rl_test"}` {
		conn.Close(4401, "Unauthorized")
		return nil, frame{}
	}
	_ = wsjson.Write(r.Context(), conn, frame{Type: "connection_ack"})
	_ = wsjson.Read(r.Context(), conn, &subscribe)
	return conn, subscribe
}

func sendStatus(r *http.Request, conn *websocket.Conn, status string) {
	payload := json.RawMessage(`{"data":{"jobProgress":{"id":"job_1","status":"` + status + `"}}}`)
	_ = wsjson.Write(r.Context(), conn, frame{ID: "1", Type: "next", Payload: payload})
}

func TestWatchJob(t *testing.T) {
	t.Parallel()

	t.Run("ConnectsAgainAndEndsWithTheJob", func(t *testing.T) {
		t.Parallel()
		var connections atomic.Int32
		c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
			conn := accept(w, r)
			defer conn.CloseNow()
			if connections.Add(1) == 1 {
				_ = wsjson.Write(r.Context(), conn, frame{Type: "ping"})
				var pong frame
				_ = wsjson.Read(r.Context(), conn, &pong)
				sendStatus(r, conn, pong.Type)
				return // a connection that breaks
			}
			sendStatus(r, conn, "COMPLETED")
			<-conn.CloseRead(r.Context()).Done()
		})

		var seen []client.JobStatus
		breaks := 0
		for job, err := range c.WatchJob(t.Context(), "job_1", 50*time.Millisecond) {
			if err != nil {
				require.Equal(t, client.CodeUnavailable, client.ErrorCode(err))
				breaks++
				continue
			}
			seen = append(seen, job.Status)
		}

		require.Equal(t, []client.JobStatus{"pong", client.JobStatusCompleted}, seen)
		require.Equal(t, 1, breaks)
	})

	t.Run("EndsWithAnErrorThatWillNotPass", func(t *testing.T) {
		t.Parallel()
		c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if conn := accept(w, r); conn != nil {
				payload := json.RawMessage(`[{"message":"there is no job job_1","extensions":{"code":"NOT_FOUND"}}]`)
				_ = wsjson.Write(r.Context(), conn, frame{ID: "1", Type: "error", Payload: payload})
				<-conn.CloseRead(r.Context()).Done()
			}
		})

		for key, want := range map[string]client.Code{"rl_test": client.CodeNotFound, "rl_other": client.CodeUnauthenticated} {
			var codes []client.Code
			for _, err := range c.WithKey(key).WatchJob(t.Context(), "job_1", time.Second) {
				codes = append(codes, client.ErrorCode(err))
			}
			require.Equal(t, []client.Code{want}, codes)
		}
	})

	t.Run("StopsWhenTheCallerDoes", func(t *testing.T) {
		t.Parallel()
		c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
			conn := accept(w, r)
			defer conn.CloseNow()
			sendStatus(r, conn, "RUNNING")
			<-conn.CloseRead(r.Context()).Done()
		})

		for job, err := range c.WatchJob(t.Context(), "job_1", time.Second) {
			require.NoError(t, err)
			require.Equal(t, client.JobStatusRunning, job.Status)
			break
		}
	})
}

func TestWorkerDirectives(t *testing.T) {
	t.Parallel()

	t.Run("ConnectsAgainAndEndsWithTheWorker", func(t *testing.T) {
		t.Parallel()
		var connections atomic.Int32
		c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
			conn := accept(w, r)
			defer conn.CloseNow()
			action := "TERMINATE"
			if connections.Add(1) == 1 {
				action = "CANCEL"
			}
			payload := json.RawMessage(`{"data":{"workerDirectives":{"action":"` + action + `","jobId":"job_1"}}}`)
			_ = wsjson.Write(r.Context(), conn, frame{ID: "1", Type: "next", Payload: payload})
			if action == "TERMINATE" {
				<-conn.CloseRead(r.Context()).Done()
			}
		})

		var heard []client.DirectiveAction
		for directive, err := range c.WorkerDirectives(t.Context(), "wrk_1") {
			if err == nil {
				require.Equal(t, "job_1", *directive.JobId)
				heard = append(heard, directive.Action)
			}
		}

		require.Equal(t, []client.DirectiveAction{client.DirectiveActionCancel, client.DirectiveActionTerminate}, heard)
	})
}
