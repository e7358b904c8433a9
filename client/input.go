package client

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// RequestInputUpload asks for a link to upload an image to, of that size and
// checksum; the artifact's id then goes into a job's params.referenceImage.
// UploadInput does both.
func (c *Client) RequestInputUpload(ctx context.Context, contentType, checksum string, sizeBytes int64) (*InputUpload, error) {
	data, err := requestInputUpload(ctx, repeater{c}, contentType, sizeBytes, checksum)
	if err != nil {
		return nil, err
	}
	return &data.RequestInputUpload, nil
}

// UploadInput stores an image, JPEG, PNG or WebP, and returns the id that goes
// into params.referenceImage. It sends the bytes again, to a new link, if the way
// to the store broke.
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
