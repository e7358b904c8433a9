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

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
)

// call is what a [Client] asks of the provider: a POST to the verb's path.
type call struct {
	Pool       *models.Pool  `json:",omitempty"`
	InstanceID string        `json:",omitempty"`
	Notice     time.Duration `json:",omitempty"`
}

// answer is what became of it.
type answer struct {
	Instances []string `json:",omitempty"`
	Reclaimed bool     `json:",omitempty"`
	Error     string   `json:",omitempty"`
	Means     string   `json:",omitempty"` // the sentinel that the error is, by its name below
}

// sentinels are the errors that callers tell apart.
var sentinels = map[string]error{"gone": jobs.ErrProviderGone, "none": ErrNoInstance}

// maxMessage bounds what one side reads of the other: a call, or the ids of all
// instances.
const maxMessage = 1 << 20

// Serve lets the [Client]s of other processes use the provider, until the
// listener is closed. Whoever reaches the listener may do everything.
func Serve(listener net.Listener, provider *Provider) error {
	server := &http.Server{ReadHeaderTimeout: callTimeout, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in call
		var out answer
		err := json.NewDecoder(io.LimitReader(r.Body, maxMessage)).Decode(&in)
		if err == nil {
			err = provider.answer(r.Context(), r.URL.Path, in, &out)
		}
		if err != nil {
			out.Error = err.Error()
		}
		for name, sentinel := range sentinels {
			if errors.Is(err, sentinel) {
				out.Means = name
			}
		}
		_ = json.NewEncoder(w).Encode(out) // a caller that is gone asks again
	})}
	if err := server.Serve(listener); !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("serve the local provider: %w", err)
	}
	return nil
}

func (p *Provider) answer(ctx context.Context, path string, in call, out *answer) (err error) {
	switch path {
	case "/start":
		if in.Pool == nil {
			return errors.New("start takes a pool")
		}
		return p.Start(ctx, in.Pool, in.InstanceID)
	case "/instances":
		out.Instances, err = p.Instances(ctx)
		return err
	case "/preempt":
		return p.Preempt(ctx, in.InstanceID, in.Notice)
	case "/kill":
		return p.Kill(ctx, in.InstanceID)
	case "/reclaimed":
		out.Reclaimed, err = p.Reclaimed(ctx, in.InstanceID)
		return err
	}
	return fmt.Errorf("the local provider cannot %q", path)
}

// callTimeout bounds one call: an instance starts, or ends, in less.
const callTimeout = 10 * time.Second

// Client is the Provider of another process on this machine.
type Client struct{ http *http.Client }

var _ jobs.Provider = (*Client)(nil)

// Dial returns a client of the Provider that is served on the Unix socket at
// path. It connects at each call, so that the provider may be away now.
func Dial(path string) *Client {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		},
		DisableKeepAlives: true,
	}
	return &Client{&http.Client{Transport: transport, Timeout: callTimeout}}
}

// Start implements jobs.Provider.
func (c *Client) Start(ctx context.Context, pool *models.Pool, instanceID string) error {
	_, err := c.call(ctx, "start", call{Pool: pool, InstanceID: instanceID})
	return err
}

// Instances implements jobs.Provider.
func (c *Client) Instances(ctx context.Context) ([]string, error) {
	out, err := c.call(ctx, "instances", call{})
	return out.Instances, err
}

// Preempt implements jobs.Provider.
func (c *Client) Preempt(ctx context.Context, instanceID string, notice time.Duration) error {
	_, err := c.call(ctx, "preempt", call{InstanceID: instanceID, Notice: notice})
	return err
}

// Kill implements jobs.Provider.
func (c *Client) Kill(ctx context.Context, instanceID string) error {
	_, err := c.call(ctx, "kill", call{InstanceID: instanceID})
	return err
}

// Reclaimed implements jobs.Provider.
func (c *Client) Reclaimed(ctx context.Context, instanceID string) (bool, error) {
	out, err := c.call(ctx, "reclaimed", call{InstanceID: instanceID})
	return out.Reclaimed, err
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
	if out.Error != "" {
		return out, &remoteError{out.Error, sentinels[out.Means]}
	}
	return out, nil
}

// remoteError is the provider's error in another process: its text, and the
// sentinel that it is.
type remoteError struct {
	text  string
	means error
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.means }
