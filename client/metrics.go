package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

// maxMetrics bounds the answer of Metrics, in bytes.
const maxMetrics = 64 << 20

// Metrics returns the metrics of one API process in Prometheus' text format. It needs the key of an
// operator or a viewer, or an API that serves them openly.
func (c *Client) Metrics(ctx context.Context) ([]byte, error) {
	return c.get(ctx, "/metrics", "", maxMetrics)
}

// get returns what a path outside GraphQL answers, up to limit bytes.
func (c *Client) get(ctx context.Context, path, query string, limit int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	at := *c.endpoint
	at.Path, at.RawQuery = path, query
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, unreachable(c.endpoint.Host, err)
	}
	if c.key != "" {
		request.Header.Set("Authorization", "Bearer "+c.key)
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return nil, unreachable(c.endpoint.Host, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, limit))
	if err != nil {
		return nil, unreachable(c.endpoint.Host, err)
	}
	if answer.StatusCode != http.StatusOK {
		return nil, &Error{Code: codeOfStatus(answer.StatusCode), Message: fmt.Sprintf("%s answered %s%s", c.endpoint.Host, answer.Status,
			excerpt(text))}
	}
	return text, nil
}
