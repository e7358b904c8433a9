// Package remote fetches the images that jobs name by a URL of their owner's.
package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/reelay/reelay/internal/outbound"
	"github.com/reelay/reelay/internal/picture"
	"github.com/reelay/reelay/jobs/inputs"
)

// fetchTime bounds a fetch from its first byte to its last.
const fetchTime = 30 * time.Second

// Images implements inputs.Remote.
type Images struct {
	policy outbound.Policy
	client outbound.Client
}

// New makes Images that come from where the policy allows.
func New(policy outbound.Policy) *Images { return newImages(policy, fetchTime) }

func newImages(policy outbound.Policy, limit time.Duration) *Images {
	return &Images{policy: policy, client: policy.Client(limit)}
}

// Check implements inputs.Remote.
func (i *Images) Check(url string) error {
	_, err := i.policy.CheckURL(url)
	return err
}

// Fetch implements inputs.Remote.
func (i *Images) Fetch(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, &inputs.RemoteError{Reason: "it is not a URL"}
	}
	request.Header.Set("Accept", "image/jpeg, image/png, image/webp")
	request.Header.Set("User-Agent", "Reelay")
	answer, err := i.client.Do(request)
	if err != nil {
		return nil, failed(ctx, err)
	}
	defer answer.Body.Close()
	if err := refused(answer); err != nil {
		return nil, err
	}
	data, err := outbound.ReadAll(answer.Body, picture.MaxBytes)
	if err != nil {
		return nil, failed(ctx, err)
	}
	return data, nil
}

// failed returns the error of a call without a complete response.
func failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var refusal outbound.Refusal
	return &inputs.RemoteError{
		Reason:  outbound.Reason(err),
		Passing: !errors.As(err, &refusal) && !errors.Is(err, outbound.ErrTooLarge),
	}
}

// refused returns an error if a response is not the image.
func refused(answer *http.Response) error {
	status := answer.StatusCode
	switch {
	case status == http.StatusOK && answer.ContentLength > picture.MaxBytes:
		return &inputs.RemoteError{Reason: outbound.Reason(outbound.ErrTooLarge)}
	case status == http.StatusOK && answer.Header.Get("Content-Encoding") != "":
		return &inputs.RemoteError{Reason: "it was sent compressed, which is not supported"}
	case status == http.StatusOK:
		return nil
	case status >= 300 && status < 400:
		return &inputs.RemoteError{Reason: fmt.Sprintf("it answered %d, a redirect, which is not followed: give the URL of the image itself",
			status)}
	}
	return &inputs.RemoteError{
		Reason:  fmt.Sprintf("it answered %d", status),
		Passing: status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout,
	}
}
