// Package webhook signs and sends webhooks according to Standard Webhooks 1.0.
package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/outbound"
	"github.com/reelay/reelay/internal/tracing"
)

// UserAgent is the User-Agent of all webhooks.
const UserAgent = "Reelay-Webhooks"

const (
	// sendTimeout bounds one try, from the DNS lookup to the end of the response.
	sendTimeout = 15 * time.Second
	// maxAnswer is how much of a response is read so that its connection can be reused. The
	// content is discarded.
	maxAnswer     = 64 << 10
	maxRetryAfter = 24 * time.Hour
	// minSecret and maxSecret bound the bytes of a secret, as Standard Webhooks requires.
	minSecret, maxSecret = 24, 64
)

// Sender sends webhooks to the addresses that the policy allows.
type Sender struct {
	client interface {
		Do(*http.Request) (*http.Response, error)
	}
}

// NewSender makes a sender.
func NewSender(policy outbound.Policy) *Sender { return &Sender{policy.Client(sendTimeout)} }

// Send implements Poster. Only a 2xx response is a success. Anything else is a failure,
// including a redirect.
func (s *Sender) Send(ctx context.Context, post Post) Answer {
	begin := time.Now()
	answer := s.send(ctx, post)
	answer.Duration = time.Since(begin)
	return answer
}

func (s *Sender) send(ctx context.Context, post Post) Answer {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, post.URL, bytes.NewReader(post.Body))
	if err != nil {
		return Answer{Error: "The URL is malformed."}
	}
	if !signable(post.Secrets) {
		return Answer{Error: "It was not sent: its secret is none that can sign. Rotate the secret."}
	}
	id, at := string(post.ID), strconv.FormatInt(post.At.Unix(), 10)
	request.Header = http.Header{
		"Content-Type":      {"application/json"},
		"User-Agent":        {UserAgent},
		"Webhook-Id":        {id},
		"Webhook-Timestamp": {at},
		"Webhook-Signature": {sign(id, at, post.Body, post.Secrets)},
	}
	if post.Traceparent != "" {
		request.Header.Set(tracing.Header, post.Traceparent)
	}
	response, err := s.client.Do(request)
	if err != nil {
		return Answer{Error: "The call failed: " + outbound.Reason(err) + "."}
	}
	defer response.Body.Close()
	// The status decides: even if the rest of the response is broken, the receiver has the
	// event.
	_, _ = io.CopyN(io.Discard, response.Body, maxAnswer)
	return judge(response)
}

// signable reports whether all secrets may sign: anyone could forge a signature by an empty
// one.
func signable(secrets [][]byte) bool {
	return len(secrets) > 0 && !slices.ContainsFunc(secrets, func(secret []byte) bool {
		return len(secret) < minSecret || len(secret) > maxSecret
	})
}

// sign returns the list of signatures, one for each secret.
func sign(id, at string, body []byte, secrets [][]byte) string {
	signatures := make([]string, len(secrets))
	for i, secret := range secrets {
		mac := hmac.New(sha256.New, secret)
		fmt.Fprintf(mac, "%s.%s.", id, at)
		mac.Write(body)
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return strings.Join(signatures, " ")
}

func judge(response *http.Response) Answer {
	answer := Answer{StatusCode: response.StatusCode}
	switch code := response.StatusCode; {
	case code >= 200 && code < 300:
		return answer
	case code >= 300 && code < 400:
		answer.Error = fmt.Sprintf("The endpoint responded with status %d: redirects are not followed.", code)
	default:
		answer.Error = strings.TrimSpace(fmt.Sprintf("The endpoint responded with status %d %s", code, http.StatusText(code))) + "."
	}
	if response.StatusCode == http.StatusTooManyRequests || response.StatusCode == http.StatusServiceUnavailable {
		answer.RetryAfter = retryAfter(response.Header.Get("Retry-After"), time.Now())
	}
	return answer
}

// retryAfter parses a Retry-After in seconds or as a date. It returns 0 to 24 hours, and 0 if
// the value is malformed.
func retryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	wait := time.Duration(0)
	if n, err := strconv.ParseInt(value, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		wait = time.Duration(min(max(n, 0), int64(maxRetryAfter/time.Second))) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), maxRetryAfter)
}
