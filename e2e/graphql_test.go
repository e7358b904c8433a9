package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// post sends one GraphQL request and returns the status and the body of the answer.
func (s *stack) post(t *testing.T, key, contentType, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.keys.Endpoint+"/graphql", strings.NewReader(body))
	require.NoError(t, err)
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	req.Header.Set("Content-Type", contentType)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(answer)
}

func TestGraphQL(t *testing.T) {
	t.Parallel()

	t.Run("RefusesWhatIsWrongAndSaysWhy", func(t *testing.T) {
		t.Parallel()

		s := common(t)
		submit := func(input string) string {
			return `{"query": "mutation { submitJob(input: {` + input + `}) { job { id } } }"}`
		}
		quoted := func(text string) string {
			b, err := json.Marshal(`mutation($p: String) { submitJob(input: {model: "testcard", prompt: $p}) { job { id } } }`)
			require.NoError(t, err)
			return `{"query": ` + string(b) + `, "variables": {"p": ` + text + `}}`
		}
		const unknown = "00000000-0000-7000-8000-000000000000"
		for name, wrong := range map[string]struct{ key, body, code string }{
			"no key":         {"", `{"query": "{ viewer { role } }"}`, "UNAUTHENTICATED"},
			"an unknown key": {"rl_unknown", `{"query": "{ viewer { role } }"}`, "UNAUTHENTICATED"},
			"a wrong role":   {s.keys.ClientKey, `{"query": "{ queues { depth } }"}`, "FORBIDDEN"},
			"a client as a worker": {s.keys.ClientKey, `{"query": "mutation { deregisterWorker(workerId: \"wrk_` + unknown + `\") { id } }"}`,
				"FORBIDDEN"},
			"an enrolment key": {s.keys.WorkerKey, `{"query": "mutation { leaseJob(input: {workerId: \"wrk_` + unknown +
				`\"}) { lease { attemptId } } }"}`, "FORBIDDEN"},
			"an empty prompt":    {s.keys.ClientKey, quoted(`""`), "INVALID_INPUT"},
			"no prompt":          {s.keys.ClientKey, quoted(`null`), "INVALID_INPUT"},
			"a prompt of 100 kB": {s.keys.ClientKey, quoted(`"` + strings.Repeat("a", 100_000) + `"`), "INVALID_INPUT"},
			"a prompt with NUL":  {s.keys.ClientKey, quoted(`"a\u0000b"`), "INVALID_INPUT"},
			"a lone surrogate":   {s.keys.ClientKey, quoted(`"a\ud800b"`), "INVALID_INPUT"},
			"invalid UTF-8":      {s.keys.ClientKey, quoted("\"a\xff\""), "GRAPHQL_PARSE_FAILED"},
			"an unknown model":   {s.keys.ClientKey, submit(`model: \"sora\", prompt: \"x\"`), "INVALID_INPUT"},
			"negative seconds": {s.keys.ClientKey, submit(`model: \"testcard\", prompt: \"x\", params: {durationSeconds: -1}`),
				"INVALID_INPUT"},
			"a billion seconds": {s.keys.ClientKey, submit(`model: \"testcard\", prompt: \"x\", params: {durationSeconds: 1000000000}`),
				"INVALID_INPUT"},
			"seconds that are NaN": {s.keys.ClientKey, submit(`model: \"testcard\", prompt: \"x\", params: {durationSeconds: NaN}`),
				"INVALID_INPUT"},
			"an unknown resolution": {s.keys.ClientKey, submit(`model: \"testcard\", prompt: \"x\", params: {resolution: \"9000p\"}`),
				"INVALID_INPUT"},
			"a tier above one's own": {s.keys.ClientKey, submit(`model: \"testcard\", prompt: \"x\", tier: CRITICAL`), "FORBIDDEN"},
			"an unknown job":         {s.keys.ClientKey, `{"query": "{ job(id: \"job_` + unknown + `\") { id } }"}`, "NOT_FOUND"},
			"an id that is none":     {s.keys.ClientKey, `{"query": "{ job(id: \"1 OR 1=1\") { id } }"}`, "NOT_FOUND"},
			"an id of another kind":  {s.keys.ClientKey, `{"query": "{ job(id: \"art_` + unknown + `\") { id } }"}`, "NOT_FOUND"},
			"a malformed cursor": {s.keys.ClientKey, `{"query": "{ jobs(after: \"nonsense\") { totalCount edges { cursor } } }"}`,
				"INVALID_INPUT"},
			"first: 0":     {s.keys.ClientKey, `{"query": "{ jobs(first: 0) { edges { cursor } } }"}`, "INVALID_INPUT"},
			"first: -1":    {s.keys.ClientKey, `{"query": "{ jobs(first: -1) { edges { cursor } } }"}`, "INVALID_INPUT"},
			"first: 10000": {s.keys.ClientKey, `{"query": "{ jobs(first: 10000) { edges { cursor } } }"}`, "INVALID_INPUT"},
			"a filter with NUL": {s.keys.ClientKey,
				`{"query": "query($f: JobFilter) { jobs(filter: $f) { totalCount } }", "variables": {"f": {"type": "a\u0000b"}}}`, "INVALID_INPUT"},
			"a query that is none": {s.keys.ClientKey, `{"query": "{ jobs("}`, "GRAPHQL_PARSE_FAILED"},
			"a field that is not":  {s.keys.ClientKey, `{"query": "{ films { id } }"}`, "GRAPHQL_VALIDATION_FAILED"},
			"a batch":              {s.keys.ClientKey, `[{"query": "{ viewer { role } }"}]`, "GRAPHQL_PARSE_FAILED"},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()

				status, answer := s.post(t, wrong.key, "application/json", wrong.body)

				require.Less(t, status, 500)
				require.Contains(t, answer, `"code":"`+wrong.code+`"`)
			})
		}
	})

	t.Run("StreamsProgressOverServerSentEvents", func(t *testing.T) {
		t.Parallel()

		s := common(t)
		id := submit(t, s.client(t), "event by event", 1, 1)
		body := `{"query": "subscription { jobProgress(jobId: \"` + id + `\", intervalMs: 50) { status progress { percent } } }"}`
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.keys.Endpoint+"/graphql", strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+s.keys.ClientKey)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "text/event-stream")
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()

		var events []string
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			events = append(events, lines.Text())
		}

		require.Equal(t, "text/event-stream", strings.Split(res.Header.Get("Content-Type"), ";")[0])
		all := strings.Join(events, "\n")
		require.Contains(t, all, `"status":"RUNNING"`)
		require.Contains(t, all, `"status":"COMPLETED"`)
		require.Contains(t, all, "event: complete")
	})

	t.Run("StreamsProgressOverGraphQLTransportWS", func(t *testing.T) {
		t.Parallel()

		s := common(t)
		id := submit(t, s.client(t), "frame by frame", 1, 1)
		ctx, cancel := context.WithTimeout(t.Context(), testrun.WaitLimit)
		defer cancel()
		conn, _, err := websocket.Dial(ctx, strings.Replace(s.keys.Endpoint, "http", "ws", 1)+"/graphql",
			&websocket.DialOptions{Subprotocols: []string{"graphql-transport-ws"}})
		require.NoError(t, err)
		defer conn.CloseNow()
		type message struct {
			ID      string          `json:"id,omitempty"`
			Type    string          `json:"type"`
			Payload json.RawMessage `json:"payload,omitempty"`
		}
		init := json.RawMessage(`{"authorization": "Bearer ` + s.keys.ClientKey + `"}`)
		require.NoError(t, wsjson.Write(ctx, conn, message{Type: "connection_init", Payload: init}))
		query := json.RawMessage(`{"query": "subscription { jobProgress(jobId: \"` + id + `\", intervalMs: 50) { status } }"}`)
		var last string
		for {
			var m message
			require.NoError(t, wsjson.Read(ctx, conn, &m))
			switch m.Type {
			case "connection_ack":
				require.NoError(t, wsjson.Write(ctx, conn, message{ID: "1", Type: "subscribe", Payload: query}))
				continue
			case "next":
				last = string(m.Payload)
				continue
			case "ping":
				require.NoError(t, wsjson.Write(ctx, conn, message{Type: "pong"}))
				continue
			}
			require.Equal(t, "complete", m.Type, "%s", m.Payload)
			break
		}

		require.Contains(t, last, "COMPLETED")
	})

	t.Run("ClosesASocketWithoutAKey", func(t *testing.T) {
		t.Parallel()

		s := common(t)
		conn, _, err := websocket.Dial(t.Context(), strings.Replace(s.keys.Endpoint, "http", "ws", 1)+"/graphql",
			&websocket.DialOptions{Subprotocols: []string{"graphql-transport-ws"}})
		require.NoError(t, err)
		defer conn.CloseNow()
		require.NoError(t, wsjson.Write(t.Context(), conn,
			map[string]any{"type": "connection_init", "payload": map[string]string{"authorization": "rl_wrong"}}))

		_, _, err = conn.Read(t.Context())
		for err == nil {
			_, _, err = conn.Read(t.Context())
		}

		require.Equal(t, websocket.StatusCode(4401), websocket.CloseStatus(err))
	})
}
