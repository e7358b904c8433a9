package local

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/models/capacity"
)

// call is the body of a request: a POST to the path of the verb.
type call struct {
	Pool      *capacity.Pool
	RequestID string           `json:",omitempty"`
	IDs       []string         `json:",omitempty"` // to create
	Instances []fleet.Instance `json:",omitempty"` // to delete, or the one to preempt
	Notice    time.Duration    `json:",omitempty"`
}

// answer is the body of the response.
type answer struct {
	Instances []fleet.Instance    `json:",omitempty"`
	Failed    map[string]*failure `json:",omitempty"` // by instance id
	Failure   *failure            `json:",omitempty"` // of the whole call
}

// failure carries an error to another process.
type failure struct {
	Text  string
	Class fleet.ErrorClass
	Name  string `json:",omitempty"` // in named
}

// named are the errors that callers tell apart.
var named = map[string]error{"none": fleet.ErrNoInstance, "gone": fleet.ErrProviderGone}

func failureOf(err error) *failure {
	if err == nil {
		return nil
	}
	f := &failure{Text: err.Error(), Class: fleet.ClassOf(err)}
	for name, known := range named {
		if errors.Is(err, known) {
			f.Name = name
		}
	}
	return f
}

// err returns the error that the failure carries.
func (f *failure) err() error {
	if f == nil {
		return nil
	}
	return &fleet.ProviderError{Class: f.Class, Err: carried{f.Text, named[f.Name]}}
}

// carried is an error with a text of its own.
type carried struct {
	text  string
	known error
}

func (c carried) Error() string { return c.text }
func (c carried) Unwrap() error { return c.known }

// maxMessage bounds a request and a response, in bytes.
const maxMessage = 1 << 20

// Serve lets the [Client]s of other processes use the provider until the listener
// is closed. It does not authenticate: the listener must be private.
func Serve(listener net.Listener, provider *Provider) error {
	server := &http.Server{ReadHeaderTimeout: callTimeout, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in call
		var out answer
		err := json.NewDecoder(io.LimitReader(r.Body, maxMessage)).Decode(&in)
		if err == nil {
			err = provider.answer(r.Context(), r.URL.Path, in, &out)
		}
		out.Failure = failureOf(err)
		_ = json.NewEncoder(w).Encode(out) // a caller that went away calls again
	})}
	if err := server.Serve(listener); !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("serve the local provider: %w", err)
	}
	return nil
}

func (p *Provider) answer(ctx context.Context, path string, in call, out *answer) (err error) {
	if in.Pool == nil {
		return errors.New("every call requires a pool")
	}
	switch path {
	case "/create":
		out.Failed = map[string]*failure{}
		for _, result := range p.Create(ctx, in.Pool, in.RequestID, in.IDs) {
			out.Failed[result.ID] = failureOf(result.Err)
		}
		return nil
	case "/list":
		out.Instances, err = p.List(ctx, in.Pool)
		return err
	case "/preempt":
		if len(in.Instances) != 1 {
			return errors.New("preempt takes one instance")
		}
		return p.Preempt(ctx, in.Pool, in.Instances[0], in.Notice)
	case "/delete":
		out.Failed = map[string]*failure{}
		for id, err := range p.Delete(ctx, in.Pool, in.Instances) {
			out.Failed[id] = failureOf(err)
		}
		return nil
	}
	return fmt.Errorf("the local provider has no call %q", path)
}

// callTimeout bounds one call. Starting or ending an instance takes much less.
const callTimeout = 10 * time.Second

// Client calls the [Provider] of another process on this machine.
type Client struct{ http *http.Client }

var _ fleet.Preemptor = (*Client)(nil)

// Dial returns a client of the Provider that is served on the Unix socket at
// path. It connects for each call, so the provider need not run yet.
func Dial(path string) *Client {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		},
		DisableKeepAlives: true,
	}
	return &Client{&http.Client{Transport: transport, Timeout: callTimeout}}
}

// Create implements [fleet.Provider].
func (c *Client) Create(ctx context.Context, pool *capacity.Pool, requestID string, ids []string) []fleet.Created {
	out, err := c.call(ctx, "create", call{Pool: pool, RequestID: requestID, IDs: ids})
	if err != nil {
		return fleet.Undone(ids, err)
	}
	var all []fleet.Created
	for _, id := range ids {
		all = append(all, fleet.Created{ID: id, Err: out.Failed[id].err()})
	}
	return all
}

// List implements [fleet.Provider].
func (c *Client) List(ctx context.Context, pool *capacity.Pool) ([]fleet.Instance, error) {
	out, err := c.call(ctx, "list", call{Pool: pool})
	return out.Instances, err
}

// Preempt implements [fleet.Preemptor].
func (c *Client) Preempt(ctx context.Context, pool *capacity.Pool, instance fleet.Instance, notice time.Duration) error {
	_, err := c.call(ctx, "preempt", call{Pool: pool, Instances: []fleet.Instance{instance}, Notice: notice})
	return err
}

// Delete implements [fleet.Provider].
func (c *Client) Delete(ctx context.Context, pool *capacity.Pool, instances []fleet.Instance) map[string]error {
	out, err := c.call(ctx, "delete", call{Pool: pool, Instances: instances})
	failed := map[string]error{}
	for _, i := range instances {
		if f := out.Failed[i.ID]; err != nil || f != nil {
			failed[i.ID] = cmp.Or(err, f.err())
		}
	}
	return failed
}

func (c *Client) call(ctx context.Context, verb string, in call) (out answer, err error) {
	body, err := json.Marshal(in)
	if err != nil {
		return out, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://local-provider/"+verb, bytes.NewReader(body))
	if err != nil {
		return out, err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return out, fmt.Errorf("reach the local provider: %w", err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(io.LimitReader(response.Body, maxMessage)).Decode(&out); err != nil {
		return out, fmt.Errorf("read the local provider's answer: %w", err)
	}
	return out, out.Failure.err()
}
