package remote

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/internal/outbound"
	"github.com/reelay/reelay/internal/text"
)

const (
	maxJSON    = 16 << 20 // bytes of an answer
	maxChange  = 1 << 20  // bytes of an answer to a call that changes something
	maxRefusal = 64 << 10 // bytes of an answer that refuses
	dialLimit  = 5 * time.Second
	callLimit  = 30 * time.Second
	maxQuote   = 500 // bytes of an engine's words in a message
)

// Unreachable is a call without an answer.
type Unreachable struct {
	// Sent reports whether the engine may have got the call, and so done what it asks.
	Sent  bool
	Cause error
}

func (e *Unreachable) Error() string { return "the engine does not answer: " + e.Cause.Error() }
func (e *Unreachable) Unwrap() error { return e.Cause }

// Confused is an answer that no engine of the kind gives.
type Confused struct{ What string }

func (e *Confused) Error() string { return "the engine's answer is not one of its kind: " + e.What }

// Refused is an answer with a status that is no success.
type Refused struct {
	Status int
	Body   []byte // the beginning
	Header http.Header
}

func (e *Refused) Error() string {
	return fmt.Sprintf("the engine answered with status %d: %s", e.Status, Quote(string(e.Body)))
}

// Moved is a redirect. Only a video may be at another address.
type Moved struct{ To string }

// Host is the server to which it leads, without what may be secret in its address.
func (e *Moved) Host() string {
	if u, err := url.Parse(e.To); err == nil && u.Host != "" {
		return Quote(u.Host)
	}
	return "another path"
}

func (e *Moved) Error() string {
	return "the engine answers with a redirect: use the address to which it leads"
}

// Quote makes the words of an engine fit for a message.
func Quote(words string) string {
	return text.Clip(text.Printable(strings.Join(strings.Fields(words), " ")), maxQuote)
}

// Target is an engine's address and what its calls need.
type Target struct {
	// URL is the address, as [engine.ParseURL] has it.
	URL string
	// Secrets returns the headers of calls; nil if there are none. It is asked for each call.
	Secrets func() (http.Header, error)
	// TLS is for engines with certificates of their own; optional.
	TLS *tls.Config
	// Limit is how long a call may take that says nothing else; 0 means 30 s.
	Limit time.Duration
	// Elsewhere makes the calls of FetchElsewhere; nil means that the engine may name any address but a
	// link-local one.
	Elsewhere Doer
}

// Doer makes HTTP calls.
type Doer interface {
	Do(*http.Request) (*http.Response, error)
}

// Client makes the calls of one engine.
type Client struct {
	target Target
	http   *http.Client
	doer   Doer // http, or that of FetchElsewhere
	hidden *hidden
}

// NewClient returns a client of an engine. It follows no redirect: an engine answers itself.
func NewClient(target Target) *Client {
	transport := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: dialLimit}).DialContext,
		TLSClientConfig:        target.TLS,
		TLSHandshakeTimeout:    dialLimit,
		ResponseHeaderTimeout:  cmp.Or(target.Limit, callLimit),
		MaxResponseHeaderBytes: 64 << 10,
		IdleConnTimeout:        30 * time.Second,
		MaxIdleConnsPerHost:    4,
	}
	client := &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &Client{target: target, http: client, doer: client, hidden: new(hidden)}
}

// URL returns the address of a path, which begins with a slash and may have a query.
func (c *Client) URL(path string) string { return c.target.URL + path }

// gateways are the statuses with which a proxy says that an engine does not answer.
var gateways = []int{http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}

// Call is one request.
type Call struct {
	Method, Path string
	// Body is sent as it is with ContentType, or encoded as JSON without it. Nil sends none.
	Body        any
	ContentType string
	Header      http.Header
	// Limit is how long it may take; 0 means the target's.
	Limit time.Duration
	// Most is the largest answer, in bytes; 0 means 16 MiB for GET, and 1 MiB for others.
	Most int64
	// Direct makes 502, 503 and 504 *Refused, too: they can be the words of the engine itself.
	Direct bool
}

// Answer is the answer to a call.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// JSON decodes the answer. It returns *Confused if that is not possible.
func (a *Answer) JSON(into any) error {
	if err := json.Unmarshal(a.Body, into); err != nil {
		return &Confused{fmt.Sprintf("%s where JSON is expected (%s)", describe(a), Quote(err.Error()))}
	}
	return nil
}

func describe(a *Answer) string {
	if start := bytes.TrimSpace(a.Body); len(start) > 0 && start[0] == '<' {
		return "a page of HTML"
	}
	return fmt.Sprintf("%d bytes of %q", len(a.Body), Quote(a.Header.Get("Content-Type")))
}

// Time is the engine's clock at the answer, in seconds since 1970, or 0.
func (a *Answer) Time() int64 {
	at, err := http.ParseTime(a.Header.Get("Date"))
	if err != nil {
		return 0
	}
	return at.Unix()
}

// Do makes a call and reads its whole answer. A status of 400 and more is *Refused; 502, 503 and 504
// are what proxies say of an engine that does not answer, and so *Unreachable.
func (c *Client) Do(ctx context.Context, call Call) (*Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(call.Limit, c.target.Limit, callLimit))
	defer cancel()
	response, err := c.Open(ctx, call)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	most := call.Most
	switch {
	case most == 0 && call.Method == http.MethodGet:
		most = maxJSON
	case most == 0:
		most = maxChange
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, most+1))
	if err != nil {
		return nil, &Unreachable{true, fmt.Errorf("its answer broke off: %w", err)}
	}
	if int64(len(body)) > most {
		return nil, &Confused{fmt.Sprintf("an answer of more than %d bytes", most)}
	}
	return &Answer{response.StatusCode, response.Header, body}, nil
}

// Open makes a call and returns its answer without reading the body, which the caller closes. ctx
// bounds the reading, too.
func (c *Client) Open(ctx context.Context, call Call) (*http.Response, error) {
	request, err := c.request(ctx, call)
	if err != nil {
		return nil, &Unreachable{false, err}
	}
	var sent atomic.Bool // an engine that did not get all headers does nothing
	trace := &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }}
	response, err := c.doer.Do(request.WithContext(httptrace.WithClientTrace(ctx, trace)))
	if err != nil {
		return nil, c.unreachable(err, sent.Load())
	}
	switch status := response.StatusCode; {
	case status < 300:
		return response, nil
	case status < 400:
		response.Body.Close()
		return nil, &Moved{response.Header.Get("Location")}
	case !call.Direct && slices.Contains(gateways, status):
		words, _ := io.ReadAll(io.LimitReader(response.Body, maxRefusal))
		response.Body.Close()
		return nil, &Unreachable{true, fmt.Errorf("status %d: %s", status, c.Quote(string(words)))}
	default:
		body, err := io.ReadAll(io.LimitReader(response.Body, maxRefusal))
		response.Body.Close()
		if err != nil {
			return nil, &Unreachable{true, fmt.Errorf("its answer broke off: %w", err)}
		}
		return nil, &Refused{status, []byte(c.Clean(string(body))), c.cleanHeader(response.Header)}
	}
}

func (c *Client) request(ctx context.Context, call Call) (*http.Request, error) {
	var body io.Reader
	kind := call.ContentType
	switch b := call.Body.(type) {
	case nil:
	case io.Reader:
		body = b
	case []byte:
		body = bytes.NewReader(b)
	default:
		data, err := json.Marshal(b)
		if err != nil {
			return nil, fmt.Errorf("encode a call of an engine: %w", err)
		}
		body, kind = bytes.NewReader(data), "application/json"
	}
	request, err := http.NewRequestWithContext(ctx, call.Method, c.URL(call.Path), body)
	if err != nil {
		return nil, fmt.Errorf("make a call of an engine: %w", err)
	}
	for name, values := range call.Header {
		request.Header[name] = values
	}
	if kind != "" {
		request.Header.Set("Content-Type", kind)
	}
	return request, c.Sign(request.Header)
}

// Sign adds the headers that the engine's calls need.
func (c *Client) Sign(header http.Header) error {
	if c.target.Secrets == nil {
		return nil
	}
	secrets, err := c.target.Secrets()
	if err != nil {
		return fmt.Errorf("read the secrets of the engine: %w", err)
	}
	c.hidden.addHeader(secrets)
	for name, values := range secrets {
		header[name] = values
	}
	return nil
}

// HTTP is the client for calls that Call does not fit, such as the upgrade to a web socket.
func (c *Client) HTTP() *http.Client { return c.http }

// unreachable keeps the URL out of the message, as its query can hold a key, and the secrets of a broken answer.
func (c *Client) unreachable(err error, sent bool) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	if refusal, ok := errors.AsType[outbound.Refusal](err); ok {
		return runtime.Failf(runtime.DefectiveResult, "NO_RESULT: The address of the result is not called: %s", refusal)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = errors.New("it took too long")
	}
	if said := err.Error(); c.Clean(said) != said {
		err = errors.New(c.Clean(said))
	}
	return &Unreachable{sent, err}
}

// Fetch opens a file from an offset. An engine that does not know ranges sends it from the start.
func (c *Client) Fetch(ctx context.Context, path string, offset int64) (body io.ReadCloser, at, size int64, err error) {
	header := http.Header{}
	if offset > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}
	response, err := c.Open(ctx, Call{Method: http.MethodGet, Path: path, Header: header})
	if refused, ok := errors.AsType[*Refused](err); ok && refused.Status == http.StatusRequestedRangeNotSatisfiable {
		return c.Fetch(ctx, path, 0) // the file is another one, or was whole already
	}
	if err != nil {
		return nil, 0, 0, err
	}
	size = response.ContentLength
	if response.StatusCode == http.StatusPartialContent {
		if _, err := fmt.Sscanf(response.Header.Get("Content-Range"), "bytes %d-", &at); err != nil {
			response.Body.Close()
			return nil, 0, 0, &Confused{"a part of a file without its offset"}
		}
		if size >= 0 {
			size += at
		}
	}
	if kind := response.Header.Get("Content-Type"); strings.HasPrefix(kind, "text/html") || strings.HasPrefix(kind, "application/json") {
		response.Body.Close()
		return nil, 0, 0, &Confused{"a page or JSON where a file is expected"}
	}
	return response.Body, at, size, nil
}

// FetchElsewhere opens a video that an engine has stored on another server, such as a bucket. That
// server gets none of the engine's secrets.
func (c *Client) FetchElsewhere(ctx context.Context, address string, offset int64) (body io.ReadCloser, at, size int64, err error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, 0, 0, &Confused{"the address of the video is not a URL"}
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil && ip.IsLinkLocalUnicast() {
		return nil, 0, 0, &Confused{"the address of the video is link-local, such as that of a metadata server"}
	}
	elsewhere := &Client{target: Target{URL: u.Scheme + "://" + u.Host}, http: c.http, doer: c.http, hidden: c.hidden}
	if c.target.Elsewhere != nil {
		elsewhere.doer = c.target.Elsewhere
	}
	path := u.EscapedPath()
	if path == "" {
		path = "/"
	}
	if u.RawQuery != "" {
		path += "?" + u.RawQuery
	}
	return elsewhere.Fetch(ctx, path, offset)
}
