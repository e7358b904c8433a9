package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// Upload sends size bytes from r to a target, once. A target is valid for one try,
// even if that try fails. The store refuses bytes that do not have the announced size
// and checksum (CHECKSUM_MISMATCH or INVALID_INPUT), and a key that is taken
// (CONFLICT).
func (c *Client) Upload(ctx context.Context, target *UploadTarget, r io.Reader, size int64) error {
	headers, err := target.header()
	if err != nil {
		return &Error{Code: CodeUnavailable, Message: fmt.Sprintf("the upload target's headers cannot be read: %v", err), cause: err}
	}
	ctx, watch, stop := guardStall(ctx)
	defer stop()
	// The transport must not close r. The body is not nil even if size is 0, so that an
	// empty object has a Content-Length.
	body := io.NopCloser(watch(io.LimitReader(r, size)))
	if size == 0 {
		body = http.NoBody
	}
	req, err := c.newObjectRequest(ctx, target.Method, target.Url, body)
	if err != nil {
		return err
	}
	req.ContentLength = size
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	answer, err := c.http.Do(req)
	if err != nil {
		return unreachable(req.URL.Host, orStalled(ctx, err))
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 4096))
	if answer.StatusCode/100 != 2 {
		return strangeAnswer(answer, text)
	}
	return nil
}

// newObjectRequest makes a request for a signed link. It carries no key: the link
// itself is the permission.
func (c *Client) newObjectRequest(ctx context.Context, method, link string, body io.Reader) (*http.Request, error) {
	u, err := c.endpoint.Parse(link)
	if err != nil {
		return nil, &Error{Code: CodeInvalidInput, Message: fmt.Sprintf("the link %q is not a URL", link), cause: err}
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, &Error{Code: CodeInvalidInput, Message: fmt.Sprintf("the link %q cannot be used: %v", link, err), cause: err}
	}
	return req, nil
}

// orStalled returns errStalled if the transfer ended because it stalled, or else err.
func orStalled(ctx context.Context, err error) error {
	if context.Cause(ctx) == errStalled {
		return errStalled
	}
	return err
}

// RequestInputUpload requests a link for the upload of an image, video or sound with this
// size and checksum. The id of the artifact is then the value of a parameter that names a
// file, such as params.referenceImage.
// UploadInput requests the link and uploads.
func (c *Client) RequestInputUpload(ctx context.Context, contentType, checksum string, sizeBytes int64) (*InputUpload, error) {
	data, err := requestInputUpload(ctx, repeater{c}, contentType, sizeBytes, checksum)
	if err != nil {
		return nil, err
	}
	return &data.RequestInputUpload, nil
}

// UploadInput uploads an image (JPEG, PNG or WebP, up to 20 MB), or a video or sound (MP4,
// WebM, MP3, M4A, WAV, FLAC or Ogg, up to 500 MB), and returns its id, the value for a
// parameter that names a file, such as params.referenceImage. If the upload is interrupted, it retries with a new link.
func (c *Client) UploadInput(ctx context.Context, contentType string, file io.ReadSeeker) (artifactID string, err error) {
	for try := 1; ; try++ {
		artifactID, err = c.uploadInput(ctx, contentType, file)
		e, ok := errors.AsType[*Error](err)
		if !ok || !e.Retryable() || try >= c.tries || e.RetryAfter > maxPause || !sleep(ctx, max(backoff(try), e.RetryAfter)) {
			return artifactID, err
		}
	}
}

func (c *Client) uploadInput(ctx context.Context, contentType string, file io.ReadSeeker) (string, error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return "", fmt.Errorf("read the input: %w", err)
	}
	sum, size, err := Checksum(file)
	if err != nil {
		return "", fmt.Errorf("read the input: %w", err)
	}
	upload, err := c.RequestInputUpload(ctx, contentType, sum, size)
	if err != nil {
		return "", err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return "", fmt.Errorf("read the input: %w", err)
	}
	return upload.ArtifactId, c.Upload(ctx, &upload.Target, file, size)
}
