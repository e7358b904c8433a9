package client

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// RequestInputUpload requests a link for the upload of an image with this size and
// checksum. The id of the artifact is then the value of a job's params.referenceImage.
// UploadInput requests the link and uploads.
func (c *Client) RequestInputUpload(ctx context.Context, contentType, checksum string, sizeBytes int64) (*InputUpload, error) {
	data, err := requestInputUpload(ctx, repeater{c}, contentType, sizeBytes, checksum)
	if err != nil {
		return nil, err
	}
	return &data.RequestInputUpload, nil
}

// UploadInput uploads a JPEG, PNG or WebP image and returns its id, the value for
// params.referenceImage. If the upload is interrupted, it retries with a new link.
func (c *Client) UploadInput(ctx context.Context, contentType string, image io.ReadSeeker) (artifactID string, err error) {
	for try := 1; ; try++ {
		artifactID, err = c.uploadInput(ctx, contentType, image)
		e, ok := errors.AsType[*Error](err)
		if !ok || !e.Retryable() || try >= c.tries || e.RetryAfter > maxPause || !sleep(ctx, max(backoff(try), e.RetryAfter)) {
			return artifactID, err
		}
	}
}

func (c *Client) uploadInput(ctx context.Context, contentType string, image io.ReadSeeker) (string, error) {
	if _, err := image.Seek(0, io.SeekStart); err != nil {
		return "", fmt.Errorf("read the image: %w", err)
	}
	sum, size, err := Checksum(image)
	if err != nil {
		return "", fmt.Errorf("read the image: %w", err)
	}
	upload, err := c.RequestInputUpload(ctx, contentType, sum, size)
	if err != nil {
		return "", err
	}
	if _, err := image.Seek(0, io.SeekStart); err != nil {
		return "", fmt.Errorf("read the image: %w", err)
	}
	return upload.ArtifactId, c.Upload(ctx, &upload.Target, image, size)
}
