package metadata

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

const (
	// address is the link-local address of both clouds' servers.
	address = "http://169.254.169.254"
	// maxBody bounds an answer, in bytes. Identity tokens are the longest, with about 2 kB.
	maxBody = 16 << 10
	// answerTimeout bounds a request that the server answers at once.
	answerTimeout = 3 * time.Second
)

// server is a metadata server.
type server struct {
	url    string
	client *http.Client
	// from is a header, as name and value, that each of its answers must have; empty means none.
	from [2]string
}

// newServer returns the server at a URL, or at the link-local address if override, a host or a
// URL, is empty. It uses no proxy and follows no redirect: an answer from elsewhere is none.
func newServer(override string) *server {
	url := address
	if override != "" {
		if url = strings.TrimSuffix(override, "/"); !strings.Contains(url, "://") {
			url = "http://" + url
		}
	}
	return &server{url: url, client: &http.Client{
		Transport: &http.Transport{
			DialContext:            (&net.Dialer{Timeout: answerTimeout}).DialContext,
			DisableCompression:     true,
			MaxResponseHeaderBytes: 16 << 10,
			MaxIdleConnsPerHost:    2,
			IdleConnTimeout:        time.Minute,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// gceServer is the server of a Compute Engine machine. GCE_METADATA_HOST names another one, as
// for Google's own libraries.
func gceServer() *server {
	s := newServer(os.Getenv("GCE_METADATA_HOST"))
	s.from = [2]string{"Metadata-Flavor", "Google"}
	return s
}

// ec2Server is the server of an EC2 machine. AWS_EC2_METADATA_SERVICE_ENDPOINT is the URL of
// another one, as for AWS's own libraries.
func ec2Server() *server { return newServer(os.Getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT")) }

// errAbsent means that the server has no such value.
var errAbsent = errors.New("the metadata server has no such value")

// statusError is an answer other than 200 and 404.
type statusError int

func (e statusError) Error() string { return fmt.Sprintf("the metadata server answered %d", int(e)) }

// ask sends one request. The error is errAbsent for 404, and a statusError for other statuses.
func (s *server) ask(ctx context.Context, timeout time.Duration, method, path string, header ...string) (body string, answered http.Header,
	err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, s.url+path, nil)
	if err != nil {
		return "", nil, err
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := s.client.Do(r)
	if err != nil {
		return "", nil, err
	}
	defer answer.Body.Close()
	if s.from[0] != "" && answer.Header.Get(s.from[0]) != s.from[1] {
		return "", nil, fmt.Errorf("the answer lacks %s: %s, so it is not from the metadata server", s.from[0], s.from[1])
	}
	switch answer.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return "", nil, errAbsent
	default:
		return "", nil, statusError(answer.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxBody+1))
	if err == nil && len(text) > maxBody {
		err = fmt.Errorf("the metadata server's answer is longer than %d bytes", maxBody)
	}
	return strings.TrimSpace(string(text)), answer.Header, err
}
