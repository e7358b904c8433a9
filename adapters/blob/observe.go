package blob

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"cloud.google.com/go/storage"
	"github.com/minio/minio-go/v7"
	"github.com/reelay/reelay/jobs"
	"google.golang.org/api/googleapi"
)

// observed is a backend whose calls are measured.
type observed struct {
	backend
	observe func(operation, result string, took time.Duration)
}

// plain returns a backend whose calls are not measured.
func plain(b backend) backend {
	if o, ok := b.(observed); ok {
		return o.backend
	}
	return b
}

func (o observed) stat(ctx context.Context, key string) (found attributes, err error) {
	defer o.measure(ctx, "stat", &err)()
	return o.backend.stat(ctx, key)
}

func (o observed) remove(ctx context.Context, key string) (err error) {
	defer o.measure(ctx, "delete", &err)()
	return o.backend.remove(ctx, key)
}

func (o observed) list(ctx context.Context, after string, limit int) (found []jobs.StoredObject, err error) {
	defer o.measure(ctx, "list", &err)()
	return o.backend.list(ctx, after, limit)
}

func (o observed) read(ctx context.Context, key string, offset, size int64) (body io.ReadCloser, err error) {
	defer o.measure(ctx, "read", &err)()
	return o.backend.read(ctx, key, offset, size)
}

func (o observed) write(ctx context.Context, u jobs.Upload, body io.Reader) (stored attributes, err error) {
	defer o.measure(ctx, "write", &err)()
	return o.backend.write(ctx, u, body)
}

// measure begins a call. The function that it returns ends it.
func (o observed) measure(ctx context.Context, operation string, err *error) func() {
	begun := time.Now()
	return func() { o.observe(operation, resultOf(ctx, *err), time.Since(begun)) }
}

// resultOf classifies the error of a call.
func resultOf(ctx context.Context, err error) string {
	status := statusOf(err)
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, jobs.ErrNoObject):
		return "missing"
	case errors.Is(err, errStored):
		return "exists"
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		return "throttled"
	case status >= 400 && status < 500, errors.Is(err, errNoBucket):
		return "refused"
	case errors.Is(ctx.Err(), context.Canceled):
		return "cancelled"
	}
	return "error"
}

// statusOf returns the status code of a store's answer that is an error, or 0.
func statusOf(err error) int {
	if e, ok := errors.AsType[minio.ErrorResponse](err); ok {
		return e.StatusCode
	}
	if e, ok := errors.AsType[*googleapi.Error](err); ok {
		return e.Code
	}
	if errors.Is(err, storage.ErrBucketNotExist) {
		return http.StatusNotFound
	}
	return 0
}
