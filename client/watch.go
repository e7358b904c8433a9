package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/Khan/genqlient/graphql"
	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
)

const (
	handshakeTimeout = 10 * time.Second
	// pingEvery finds a dead connection; a peer that does not answer within the
	// same time is gone.
	pingEvery = 15 * time.Second
	maxFrame  = 4 << 20
)

// WatchJob follows a job: its state now, then each change, at most one per
// interval (50 ms to a minute), until it has ended or ctx does.
//
// A connection that breaks is made again. Meanwhile the sequence yields a
// retryable *Error each time that it fails, so that the caller can say so, or
// stop. Any other error is the last thing that the sequence yields.
func (c *Client) WatchJob(ctx context.Context, id string, interval time.Duration) iter.Seq2[*Job, error] {
	request := graphql.Request{
		Query: jobProgress_Operation, OpName: "jobProgress",
		Variables: __jobProgressInput{JobId: id, IntervalMs: new(int(interval.Milliseconds()))},
	}
	return watch(ctx, c, feed[Job]{
		request: func() graphql.Request { return request },
		last:    func(job *Job) bool { return job.Status.Terminal() },
	})
}

// JobEvents follows what happens to a job: every event after the one of number
// afterSeq (0: all of them), those of the past first, until the job's last one or
// ctx ends. None is missed and none comes twice. Connections that break are
// WatchJob's.
func (c *Client) JobEvents(ctx context.Context, id string, afterSeq int) iter.Seq2[*JobEvent, error] {
	return func(yield func(*JobEvent, error) bool) {
		newest := afterSeq
		watch(ctx, c, feed[JobEvent]{
			request: func() graphql.Request {
				return graphql.Request{
					Query: jobEvents_Operation, OpName: "jobEvents",
					Variables: __jobEventsInput{JobId: id, AfterSeq: newest},
				}
			},
			last: func(e *JobEvent) bool {
				newest = e.Seq
				return false // a retry goes on behind an end: the server knows
			},
			completes: true,
		})(yield)
	}
}

// JobChanges follows the caller's jobs, those of all accounts for operators: each
// job that the filter leaves, as it is when its status has changed, until ctx ends.
// Connections that break are WatchJob's, but nothing is kept for later: after an
// error, read the list of jobs.
func (c *Client) JobChanges(ctx context.Context, filter JobFilter) iter.Seq2[*Job, error] {
	request := graphql.Request{
		Query: jobChanges_Operation, OpName: "jobChanges", Variables: __jobChangesInput{Filter: &filter},
	}
	return watch(ctx, c, feed[Job]{
		request:   func() graphql.Request { return request },
		last:      func(*Job) bool { return false },
		completes: true,
	})
}

// WorkerDirectives follows what the control plane wants of a worker: what it
// wants now, then each new wish, until a TERMINATE or ctx ends. Connections that
// break are WatchJob's.
func (c *Client) WorkerDirectives(ctx context.Context, workerID string) iter.Seq2[*Directive, error] {
	request := graphql.Request{
		Query: workerDirectives_Operation, OpName: "workerDirectives",
		Variables: __workerDirectivesInput{WorkerId: workerID},
	}
	return watch(ctx, c, feed[Directive]{
		request: func() graphql.Request { return request },
		last:    func(d *Directive) bool { return d.Action == DirectiveActionTerminate },
	})
}

// feed is a subscription of one field, whose events are of type T.
type feed[T any] struct {
	// request is made anew for each connection.
	request func() graphql.Request
	// last tells whether an event is the last one.
	last func(*T) bool
	// completes means that the server's word that it is complete is the end, too.
	completes bool
}

// watch follows a feed until its end or ctx's, on as many connections as that
// takes.
func watch[T any](ctx context.Context, c *Client, f feed[T]) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		for failures := 0; ; {
			ended, request := false, f.request()
			err := c.subscribe(ctx, request, func(payload json.RawMessage) (bool, error) {
				event, err := readEvent[T](payload, request.OpName)
				if err != nil {
					return false, err
				}
				failures = 0
				over := f.last(event)
				ended = !yield(event, nil) || over
				return !ended, nil
			})
			if ended || err == nil && f.completes {
				return
			}
			failures++
			if ctx.Err() != nil {
				yield(nil, unreachable(c.endpoint.Host, context.Cause(ctx)))
				return
			}
			if err != nil {
				e, ok := errors.AsType[*Error](err)
				if !yield(nil, err) || !ok || !e.Retryable() {
					return
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(backoff(failures)):
			}
		}
	}
}

// frame is one message of the graphql-transport-ws protocol.
type frame struct {
	ID      string          `json:"id,omitempty"`
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

// subscribe runs a subscription on a connection of its own, until next returns
// false or an error, the server says that it is complete, or it fails.
func (c *Client) subscribe(ctx context.Context, request graphql.Request, next func(payload json.RawMessage) (bool, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conn, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.CloseNow()
	payload, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("subscribe to %s: %w", request.OpName, err)
	}
	if err := wsjson.Write(ctx, conn, frame{ID: "1", Type: "subscribe", Payload: payload}); err != nil {
		return c.brokenSocket(err)
	}
	go keepAlive(ctx, conn)
	for {
		var in frame
		if err := wsjson.Read(ctx, conn, &in); err != nil {
			return c.brokenSocket(err)
		}
		switch in.Type {
		case "ping":
			if err := wsjson.Write(ctx, conn, frame{Type: "pong"}); err != nil {
				return c.brokenSocket(err)
			}
		case "next":
			goOn, err := next(in.Payload)
			if err != nil {
				return err
			}
			if !goOn {
				conn.Close(websocket.StatusNormalClosure, "")
				return nil
			}
		case "error":
			return readErrors(in.Payload)
		case "complete":
			return nil
		}
	}
}

// dial opens a socket and introduces itself.
func (c *Client) dial(ctx context.Context) (*websocket.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	conn, answer, err := websocket.Dial(ctx, c.endpoint.String(), &websocket.DialOptions{
		HTTPClient: c.http, Subprotocols: []string{"graphql-transport-ws"},
	})
	if answer != nil && answer.StatusCode != http.StatusSwitchingProtocols {
		return nil, strangeAnswer(answer, nil)
	}
	if err != nil {
		return nil, unreachable(c.endpoint.Host, err)
	}
	conn.SetReadLimit(maxFrame)
	hello, _ := json.Marshal(map[string]string{"authorization": "Bearer " + c.key})
	err = wsjson.Write(ctx, conn, frame{Type: "connection_init", Payload: hello})
	for err == nil {
		var in frame
		if err = wsjson.Read(ctx, conn, &in); in.Type == "connection_ack" {
			return conn, nil
		}
	}
	conn.CloseNow()
	return nil, c.brokenSocket(err)
}

// brokenSocket is the error of a connection that ended by itself.
func (c *Client) brokenSocket(err error) error {
	switch websocket.CloseStatus(err) {
	case 4401, 4403:
		return &Error{Code: CodeUnauthenticated, Message: "the key is missing, unknown or revoked", cause: err}
	}
	return unreachable(c.endpoint.Host, err)
}

// keepAlive closes a connection whose other end is gone, so that the read ends.
func keepAlive(ctx context.Context, conn *websocket.Conn) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pingEvery):
		}
		ping, cancel := context.WithTimeout(ctx, pingEvery)
		err := conn.Ping(ping)
		cancel()
		if err != nil {
			conn.CloseNow()
			return
		}
	}
}

// readEvent takes the value of the one field from an event.
func readEvent[T any](payload json.RawMessage, field string) (*T, error) {
	var answer struct {
		Data   map[string]*T `json:"data"`
		Errors []graphError  `json:"errors"`
	}
	err := json.Unmarshal(payload, &answer)
	if err == nil && len(answer.Errors) > 0 {
		return nil, answer.Errors[0].asError(nil)
	}
	if err != nil || answer.Data[field] == nil {
		return nil, &Error{Code: CodeUnavailable, Message: "the server sent an event of " + field + " that cannot be read", cause: err}
	}
	return answer.Data[field], nil
}

func readErrors(payload json.RawMessage) error {
	var list []graphError
	if err := json.Unmarshal(payload, &list); err != nil || len(list) == 0 {
		return &Error{Code: CodeInternal, Message: "the server ended the subscription with an error that cannot be read", cause: err}
	}
	return list[0].asError(nil)
}
