package kubernetes

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/internal/freshfile"
	"github.com/reelay/reelay/internal/pause"
	"github.com/reelay/reelay/internal/text"
)

// account is where a pod finds its service account.
const account = "/var/run/secrets/kubernetes.io/serviceaccount"

const (
	// mostBytes bounds an answer. A pod has about 10 KB, and a page has pageSize of them.
	mostBytes = 32 << 20
	mostToken = 64 << 10
	// tries is how often a call is made that failed in passing.
	tries = 3
	// longestPause is the longest pause before a repetition that the server may ask for. If it asks for more, the call
	// fails.
	longestPause = 2 * time.Second
	maxMessage   = 1000
)

// connection is the API server, and how it is called.
type connection struct {
	url, namespace string
	token          *freshfile.File[string]
	client         *freshfile.File[*http.Client]
	// limit bounds one call, and pause is the first pause before a repetition.
	limit, pause time.Duration
}

// connect returns the connection that the configuration or the pod's service account describes.
func (c *Config) connect() (*connection, error) {
	on := &connection{url: strings.TrimSuffix(c.URL, "/"), namespace: c.Namespace, limit: c.CallTimeout, pause: c.Retry}
	folder := cmp.Or(c.account, account)
	tokenFile, authorities := c.TokenFile, c.CAFile
	if on.url == "" {
		host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
		if host == "" || port == "" {
			return nil, fleet.Refuse(fleet.Permission, "control does not run in a pod: set REELAY_KUBERNETES_URL, "+
				"REELAY_KUBERNETES_TOKEN_FILE, REELAY_KUBERNETES_CA_FILE and REELAY_KUBERNETES_NAMESPACE")
		}
		on.url = "https://" + net.JoinHostPort(host, port)
		tokenFile, authorities = cmp.Or(tokenFile, filepath.Join(folder, "token")), cmp.Or(authorities, filepath.Join(folder, "ca.crt"))
	}
	if on.namespace == "" {
		name, err := os.ReadFile(filepath.Join(folder, "namespace"))
		if err != nil {
			return nil, fleet.Refuse(fleet.Permission, "the namespace of pods is unknown (%w): set REELAY_KUBERNETES_NAMESPACE", err)
		}
		on.namespace = strings.TrimSpace(string(name))
	}
	if !IsNamespace(on.namespace) {
		return nil, fleet.Refuse(fleet.Permission, "the namespace %q of the service account is no name of a namespace",
			text.Clip(on.namespace, 64))
	}
	on.token = freshfile.New(func() (string, error) { return readToken(tokenFile) }, tokenFile)
	on.client = freshfile.New(func() (*http.Client, error) { return httpClient(authorities, c.CallTimeout) }, authorities)
	return on, nil
}

func readToken(path string) (string, error) {
	if path == "" {
		return "", errors.New("REELAY_KUBERNETES_TOKEN_FILE is not set: it must name a file with the token of a service account")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the token of the service account: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if token == "" || len(token) > mostToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("%s holds no token of a service account", path)
	}
	return token, nil
}

// httpClient returns a client that trusts these authorities besides the system's. It follows no redirect: an API server
// sends none, and the token is for it only. A connection on which nothing comes for the limit of a call is tried, and soon
// given up.
func httpClient(authorities string, limit time.Duration) (*http.Client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if authorities != "" {
		data, err := os.ReadFile(authorities)
		if err != nil {
			return nil, fmt.Errorf("read the certificates of the API server's authority: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("%s holds no certificate in PEM", authorities)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	transport.MaxIdleConnsPerHost = 2 * atOnce
	// All calls share a connection. Without pings, they use one to a server that vanished until the kernel gives it up, a
	// quarter of an hour later.
	transport.HTTP2 = &http.HTTP2Config{SendPingTimeout: limit, PingTimeout: limit / 2}
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}, nil
}

// call is one call of the API.
type call struct {
	method, path string
	query        url.Values
	body         any
	// kind is the kind of object that the answer must be, so that the page of a proxy is no answer.
	kind string
}

// path returns the path of objects of the namespace, or of a part of one.
func (on *connection) path(parts ...string) string {
	path := "/api/v1/namespaces/" + url.PathEscape(on.namespace)
	for _, part := range parts {
		path += "/" + url.PathEscape(part)
	}
	return path
}

// do makes a call and decodes the answer into answer. It repeats a call that failed in passing: all calls of this package
// are harmless to repeat. It returns the server's clock, or this machine's if the answer has none.
func (on *connection) do(ctx context.Context, c call, answer any) (time.Time, error) {
	wait := on.pause
	for try := 1; ; try++ {
		now, err := on.once(ctx, c, answer)
		refused, _ := errors.AsType[*answerError](err)
		if err == nil || try == tries || ctx.Err() != nil || fleet.ClassOf(err) != fleet.Transient || refused != nil && refused.final() {
			return now, err
		}
		longer := wait
		if refused != nil {
			longer = max(wait, refused.after)
		}
		if longer > longestPause || pause.For(ctx, longer) != nil {
			return now, err
		}
		wait *= 2
	}
}

// once makes a call once, or twice if the token was replaced meanwhile.
func (on *connection) once(ctx context.Context, c call, answer any) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, on.limit)
	defer cancel()
	for {
		response, token, err := on.send(ctx, c)
		if err != nil {
			return time.Time{}, err
		}
		now := clock(response)
		data, err := readAnswer(response)
		if err == nil {
			err = decode(data, response, c, answer)
		}
		refused, _ := errors.AsType[*answerError](err)
		if refused != nil && refused.status == http.StatusUnauthorized {
			if newer, err := on.token.Get(); err == nil && newer != token {
				continue
			}
		}
		return now, err
	}
}

// send sends a call, and returns the token that it used.
func (on *connection) send(ctx context.Context, c call) (*http.Response, string, error) {
	token, err := on.token.Get()
	if err != nil {
		return nil, "", &fleet.ProviderError{Class: fleet.Permission, Err: err}
	}
	client, err := on.client.Get()
	if err != nil {
		return nil, "", &fleet.ProviderError{Class: fleet.Permission, Err: err}
	}
	var body io.Reader
	if c.body != nil {
		data, err := json.Marshal(c.body)
		if err != nil {
			return nil, "", fmt.Errorf("write the call: %w", err)
		}
		body = bytes.NewReader(data)
	}
	request, err := http.NewRequestWithContext(ctx, c.method, on.url+c.path+"?"+c.query.Encode(), body)
	if err != nil {
		return nil, "", fleet.Refuse(fleet.Permission, "REELAY_KUBERNETES_URL is no address: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "reelay")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := client.Do(request)
	if err != nil {
		if certificate, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
			return nil, "", fleet.Refuse(fleet.Permission, "the certificate of the API server is not trusted (%w): see REELAY_KUBERNETES_CA_FILE",
				certificate.Err)
		}
		return nil, "", fleet.Refuse(fleet.Transient, "the API server of Kubernetes does not answer: %w", unaddressed(err))
	}
	return response, token, nil
}

// unaddressed is an error without the address of the call, which repeats what its caller says.
func unaddressed(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

// clock returns the time of an answer. Times in pods are of the cluster, whose clock may differ from this machine's.
func clock(response *http.Response) time.Time {
	if now, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		return now
	}
	return time.Now()
}

func readAnswer(response *http.Response) ([]byte, error) {
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, mostBytes+1))
	switch {
	case err != nil:
		return nil, fleet.Refuse(fleet.Transient, "the answer of Kubernetes ended early: %w", err)
	case len(data) > mostBytes:
		return nil, fleet.Refuse(fleet.Transient, "the answer of Kubernetes is larger than %d MiB", mostBytes>>20)
	}
	return data, nil
}

// decode reads an answer, or the error in it.
func decode(data []byte, response *http.Response, c call, answer any) error {
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return refusal(data, response)
	}
	var head struct{ Kind, APIVersion string }
	if err := json.Unmarshal(data, &head); err != nil {
		return fleet.Refuse(fleet.Transient, "this is no answer of Kubernetes but %s: is a proxy in between?", contentType(response))
	}
	if c.kind == "" || answer == nil {
		return nil
	}
	if head.Kind != c.kind {
		return fleet.Refuse(fleet.Transient, "Kubernetes answered with an object of the kind %q in place of %s",
			text.Clip(text.Printable(head.Kind), 64), c.kind)
	}
	if err := json.Unmarshal(data, answer); err != nil {
		return fleet.Refuse(fleet.Transient, "the answer of Kubernetes cannot be read: %w", err)
	}
	return nil
}

func contentType(response *http.Response) string {
	kind, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if err != nil || kind == "" {
		return "something else"
	}
	return text.Clip(text.Printable(kind), 64)
}

// answerError is what an API server refused.
type answerError struct {
	status          int
	reason, message string
	// ours is true if the API server said it, and not something before it.
	ours bool
	// after is when to ask again, or 0.
	after time.Duration
}

func (e *answerError) Error() string { return fmt.Sprintf("%d %s: %s", e.status, e.reason, e.message) }

// final reports whether the same call gets the same answer: the object is not as the call takes it to be. A quota that
// several calls reserve at once is in conflict, too, but only for a moment.
func (e *answerError) final() bool {
	return e.status == http.StatusConflict && !strings.Contains(e.message, "resourcequotas") || e.status == http.StatusGone
}

// is reports whether an error is a refusal with this status.
func is(err error, status int) bool {
	refused, ok := errors.AsType[*answerError](err)
	return ok && refused.status == status && refused.ours
}

// refusal reads an answer that is no success, and gives it its class.
func refusal(data []byte, response *http.Response) error {
	e := &answerError{status: response.StatusCode, reason: http.StatusText(response.StatusCode)}
	var says struct{ Kind, Message, Reason string }
	if err := json.Unmarshal(data, &says); err == nil && says.Kind == "Status" {
		e.ours = true
		e.message = text.Clip(text.Printable(says.Message), maxMessage)
		if says.Reason != "" {
			e.reason = text.Clip(text.Printable(says.Reason), 64)
		}
	} else {
		e.message = "this is no answer of Kubernetes but " + contentType(response)
	}
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > 0 {
		e.after = time.Duration(min(seconds, 3600)) * time.Second
	}
	return &fleet.ProviderError{Class: classOf(e), Err: e}
}

// classOf returns the class of a refusal. Quotas refuse with 403, as missing rights do.
func classOf(e *answerError) fleet.ErrorClass {
	switch {
	case !e.ours: // a proxy's: it says nothing about pods
		return fleet.Transient
	case e.status == http.StatusForbidden && strings.Contains(e.message, "exceeded quota"):
		return fleet.Quota
	case e.status == http.StatusUnauthorized, e.status == http.StatusForbidden:
		return fleet.Permission
	case e.status == http.StatusTooManyRequests, e.status == http.StatusRequestTimeout, e.status == http.StatusConflict,
		e.status == http.StatusGone, e.status >= 500, e.status < 400:
		return fleet.Transient
	}
	return fleet.Invalid
}

// atOnce is how many calls are made at a time.
const atOnce = 8

// each runs do for all, atOnce at a time, and waits for all of them.
func each[T any](all []T, do func(T)) {
	var running sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for _, one := range all {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			do(one)
		})
	}
	running.Wait()
}
