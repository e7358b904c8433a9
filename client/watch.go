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
	// pingEvery is the interval between pings. A connection whose ping is not answered
	// within the same time is closed.
	pingEvery = 15 * time.Second
	maxFrame  = 4 << 20
)

// WatchJob yields the job's current state, then each change, at most one per interval
// (50 ms to a minute), until the job or ctx ends.
//
// A broken connection is reopened. Each failure yields a retryable *Error, so that the
// caller can report it or stop. Any other error ends the sequence.
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

// JobEvents yields every event of a job after the event afterSeq (0 means all), past
// events first, until the job's last event or the end of ctx. It misses no event and
// yields none twice. Broken connections are handled as in WatchJob.
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
				return false // a retry can follow an end: the server decides
			},
			completes: true,
		})(yield)
	}
}

// JobChanges yields each job that matches the filter when its status has changed, until
// ctx ends. Operators see the jobs of all accounts, other callers their own. Broken
// connections are handled as in WatchJob, but changes during the interruption are lost:
// after an error, read the list of jobs.
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

// WorkerDirectives yields the current directives for a worker, then each new one, until
// a TERMINATE or the end of ctx. Broken connections are handled as in WatchJob.
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

// ProviderWebhooks yields how many webhooks the hosted provider of a job has sent about it, with each new one, until no
// worker has the job or ctx ends. The caller has an enrolment key. Broken connections are handled as in WatchJob.
func (c *Client) ProviderWebhooks(ctx context.Context, jobID string) iter.Seq2[*int, error] {
	request := graphql.Request{
		Query: providerWebhooks_Operation, OpName: "providerWebhooks",
		Variables: __providerWebhooksInput{JobId: jobID},
	}
	return watch(ctx, c, feed[int]{
		request:   func() graphql.Request { return request },
		last:      func(*int) bool { return false },
		completes: true,
	})
}

// feed is a subscription of one field, whose events are of type T.
type feed[T any] struct {
	// request returns the request for a new connection.
	request func() graphql.Request
	// last reports whether an event is the last one.
	last func(*T) bool
	// completes means that a complete message from the server ends the feed.
	completes bool
}

// watch follows a feed until it or ctx ends, over as many connections as necessary.
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

// subscribe runs a subscription on its own connection until next returns false or an
// error, the server completes it, or it fails.
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

// dial opens a WebSocket and authenticates.
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

// brokenSocket returns the error of a connection that the other side ended.
func (c *Client) brokenSocket(err error) error {
	switch websocket.CloseStatus(err) {
	case 4401, 4403:
		return &Error{Code: CodeUnauthenticated, Message: "the key is missing, unknown or revoked", cause: err}
	}
	return unreachable(c.endpoint.Host, err)
}

// keepAlive closes a dead connection, so that the pending read ends.
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

// readEvent returns the value of the one field of an event.
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

// WaitingFor returns why a job waits, the most informative reason first; none if it does not wait,
// or if nothing holds it back.
func (c *Client) WaitingFor(ctx context.Context, id string) ([]WaitingReason, error) {
	data, err := jobWaitingFor(ctx, caller{c}, id)
	if err != nil {
		return nil, err
	}
	if data.Job == nil {
		return nil, nil
	}
	return data.Job.WaitingFor, nil
}
