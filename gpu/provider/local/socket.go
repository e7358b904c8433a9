package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/reelay/reelay/jobs/fleet"
	"github.com/reelay/reelay/models"
)

// call is the body of a request: a POST to the path of the verb.
type call struct {
	Pool        *models.Pool  `json:",omitempty"`
	InstanceIDs []string      `json:",omitempty"`
	InstanceID  string        `json:",omitempty"`
	Notice      time.Duration `json:",omitempty"`
}

// answer is the body of the response.
type answer struct {
	Instances []fleet.Instance    `json:",omitempty"`
	Failed    map[string]*failure `json:",omitempty"` // by instance id
	Failure   *failure            `json:",omitempty"` // of the whole call
}

// failure carries an error to another process: its text, and the name of its
// class if it has one.
type failure struct {
	Text  string
	Class string `json:",omitempty"`
}

// classes are the errors that callers tell apart.
var classes = map[string]error{
	"no capacity": fleet.ErrNoCapacity,
	"quota":       fleet.ErrQuota,
	"invalid":     fleet.ErrInvalidInstance,
	"none":        fleet.ErrNoInstance,
	"gone":        fleet.ErrProviderGone,
}

func failureOf(err error) *failure {
	if err == nil {
		return nil
	}
	f := &failure{Text: err.Error()}
	for name, class := range classes {
		if errors.Is(err, class) {
			f.Class = name
		}
	}
	return f
}

func (f *failure) Error() string { return f.Text }
func (f *failure) Unwrap() error { return classes[f.Class] }

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
	switch path {
	case "/create":
		if in.Pool == nil {
			return errors.New("create requires a pool")
		}
		out.Failed = map[string]*failure{}
		for id, err := range p.Create(ctx, in.Pool, in.InstanceIDs) {
			out.Failed[id] = failureOf(err)
		}
		return nil
	case "/list":
		out.Instances, err = p.List(ctx)
		return err
	case "/preempt":
		return p.Preempt(ctx, in.InstanceID, in.Notice)
	case "/kill":
		return p.Kill(ctx, in.InstanceID)
	}
	return fmt.Errorf("the local provider has no call %q", path)
}

// callTimeout bounds one call. Starting or ending an instance takes much less.
const callTimeout = 10 * time.Second

// Client calls the [Provider] of another process on this machine.
type Client struct{ http *http.Client }

var _ fleet.Provider = (*Client)(nil)

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
func (c *Client) Create(ctx context.Context, pool *models.Pool, instanceIDs []string) map[string]error {
	out, err := c.call(ctx, "create", call{Pool: pool, InstanceIDs: instanceIDs})
	failed := map[string]error{}
	for _, id := range instanceIDs {
		if err != nil {
			failed[id] = err
		} else if f := out.Failed[id]; f != nil {
			failed[id] = f
		}
	}
	return failed
}

// List implements [fleet.Provider].
func (c *Client) List(ctx context.Context) ([]fleet.Instance, error) {
	out, err := c.call(ctx, "list", call{})
	return out.Instances, err
}

// Preempt implements [fleet.Provider].
func (c *Client) Preempt(ctx context.Context, instanceID string, notice time.Duration) error {
	_, err := c.call(ctx, "preempt", call{InstanceID: instanceID, Notice: notice})
	return err
}

// Kill implements [fleet.Provider].
func (c *Client) Kill(ctx context.Context, instanceID string) error {
	_, err := c.call(ctx, "kill", call{InstanceID: instanceID})
	return err
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
	if out.Failure != nil {
		return out, out.Failure
	}
	return out, nil
}
