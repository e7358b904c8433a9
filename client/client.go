// Package client calls the Reelay API. The types and queries are generated from
// the API's schema; [Client] has one method for each call.
//
// If a call fails, its method returns an [*Error], whether the input, the API or the
// network was at fault.
package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/Khan/genqlient/graphql"
)

//go:generate go tool genqlient genqlient.yaml
//go:generate go run ./finish Edges PageInfo Node TotalCount

const (
	// callTimeout is longer than the longest long poll (25 s) can take.
	callTimeout = 60 * time.Second
	// maxAnswer limits the size of one answer. A full page of jobs is far smaller.
	maxAnswer = 32 << 20
)

// Client calls one Reelay API with one key. It is safe for concurrent use.
type Client struct {
	endpoint *url.URL
	key      string
	http     *http.Client
	tries    int
	waits    func(last *Error, pause time.Duration)
}

// Option changes how a Client works.
type Option func(*Client)

// WithTransport sends all requests, including uploads and downloads, through rt.
func WithTransport(rt http.RoundTripper) Option {
	return func(c *Client) { c.http.Transport = rt }
}

// New returns a client of the API at endpoint, such as http://127.0.0.1:8080. It makes
// no call. If the endpoint is not an http or https URL, it returns an INVALID_INPUT
// error.
func New(endpoint, key string, options ...Option) (*Client, error) {
	u, err := url.Parse(strings.TrimSpace(endpoint))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, &Error{Code: CodeInvalidInput, Field: "endpoint",
			Message: fmt.Sprintf("the endpoint %q is not a URL: it must look like http://127.0.0.1:8080", endpoint)}
	}
	if u.Path = strings.TrimSuffix(u.Path, "/"); u.Path == "" {
		u.Path = "/graphql"
	}
	c := &Client{endpoint: u, key: strings.TrimSpace(key), http: &http.Client{Transport: newTransport()}, tries: defaultTries}
	for _, option := range options {
		option(c)
	}
	return c, nil
}

// newTransport returns Go's default transport with enough idle connections for the
// concurrent calls of one worker or user.
func newTransport() http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 16
	return t
}

// WithKey returns a client of the same API that calls with another key.
func (c *Client) WithKey(key string) *Client {
	other := *c
	other.key = strings.TrimSpace(key)
	return &other
}

// Endpoint returns the URL that calls are sent to.
func (c *Client) Endpoint() string { return c.endpoint.String() }

// caller sends the requests of the generated code, each once.
type caller struct{ *Client }

// MakeRequest posts one operation and decodes its answer into resp.Data. Its error is
// an *Error. After UNAVAILABLE it closes the idle connections, because all of them may
// lead to one failing api process.
func (c caller) MakeRequest(ctx context.Context, req *graphql.Request, resp *graphql.Response) error {
	err := c.post(ctx, req, resp)
	if ErrorCode(err) == CodeUnavailable {
		c.http.CloseIdleConnections()
	}
	return err
}

// traceparent is the key of a traceparent in a context.
type traceparent struct{}

// WithTraceparent returns a context whose calls send a W3C traceparent, so that the server's spans are
// children of that one. It returns ctx if parent is empty.
func WithTraceparent(ctx context.Context, parent string) context.Context {
	if parent == "" {
		return ctx
	}
	return context.WithValue(ctx, traceparent{}, parent)
}

func (c caller) post(ctx context.Context, req *graphql.Request, resp *graphql.Response) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	body, err := json.Marshal(req)
	if err != nil {
		return &Error{Code: CodeInvalidInput, Message: fmt.Sprintf("%s: the request cannot be encoded as JSON: %v", req.OpName, err), cause: err}
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint.String(), bytes.NewReader(body))
	if err != nil {
		return unreachable(c.endpoint.Host, err)
	}
	post.Header.Set("Content-Type", "application/json")
	post.Header.Set("Accept", "application/graphql-response+json, application/json;q=0.9")
	if c.key != "" {
		post.Header.Set("Authorization", "Bearer "+c.key)
	}
	if parent, ok := ctx.Value(traceparent{}).(string); ok {
		post.Header.Set("Traceparent", parent)
	}
	answer, err := c.http.Do(post)
	if err != nil {
		return unreachable(c.endpoint.Host, err)
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	if err != nil {
		return unreachable(c.endpoint.Host, err)
	}
	if len(raw) > maxAnswer {
		return &Error{Code: CodeUnavailable, Unsettled: true, Message: fmt.Sprintf("%s: the answer is longer than %d MiB", req.OpName,
			maxAnswer>>20)}
	}
	return decode(answer, raw, resp.Data)
}

// decode reads an answer into data. It returns an error if the answer is one, or if it
// is not GraphQL.
func decode(answer *http.Response, raw []byte, data any) error {
	var envelope struct {
		Data   json.RawMessage `json:"data"`
		Errors []graphError    `json:"errors"`
	}
	err := json.Unmarshal(raw, &envelope)
	if err == nil && len(envelope.Errors) > 0 {
		return envelope.Errors[0].asError(answer)
	}
	if err != nil || answer.StatusCode != http.StatusOK || len(envelope.Data) == 0 {
		e := strangeAnswer(answer, raw)
		switch e.Code {
		case CodeNotFound, CodeForbidden, CodeConflict:
			// A proxy answered because the API is unreachable; the API said nothing.
			e.Code, e.Unsettled = CodeUnavailable, true
		}
		return e
	}
	if err := json.Unmarshal(envelope.Data, data); err != nil {
		return &Error{Code: CodeUnavailable, Unsettled: true, cause: err,
			Message: fmt.Sprintf("the answer of %s does not match this version of the client: %v", answer.Request.URL.Host, err)}
	}
	return nil
}

// TrustFile returns an Option that makes a Client also trust the certificates in a PEM
// file, such as those of a private CA. With an empty path the option does nothing.
// TrustFile returns an error if the file cannot be read or has no certificate.
func TrustFile(path string) (Option, error) {
	if path == "" {
		return func(*Client) {}, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read certificates to trust: %w", err)
	}
	trusted, err := x509.SystemCertPool()
	if err != nil {
		trusted = x509.NewCertPool()
	}
	if !trusted.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate in PEM format", path)
	}
	transport := newTransport().(*http.Transport)
	transport.TLSClientConfig = &tls.Config{RootCAs: trusted}
	return WithTransport(transport), nil
}

// unmarshalInt64 reads the Int64 scalar. The API writes it as a number below 2^53, and
// as a string from there on.
func unmarshalInt64(b []byte, v *int64) error {
	text := string(b)
	if len(b) > 0 && b[0] == '"' {
		if err := json.Unmarshal(b, &text); err != nil {
			return err
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fmt.Errorf("%s is not a 64-bit integer", b)
	}
	*v = n
	return nil
}

// marshalInt64 writes the Int64 scalar; see unmarshalInt64.
func marshalInt64(v *int64) ([]byte, error) {
	if *v > 1<<53-1 || *v < -(1<<53-1) {
		return json.Marshal(strconv.FormatInt(*v, 10))
	}
	return json.Marshal(*v)
}
