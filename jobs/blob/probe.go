package blob

import (
	"context"
	"errors"
	"fmt"
	"io"

	"cloud.google.com/go/storage"

	"github.com/reelay/reelay/jobs"
)

var _ jobs.ExaminedObjects = (*Store)(nil)

// Open reads the first size bytes of the object under key, or returns
// jobs.ErrNoObject.
func (s *Store) Open(ctx context.Context, key string, size int64) (io.ReadCloser, error) {
	// Of a range the client does not check the checksum: who examines wants to
	// see what is there.
	object, err := s.bucket.Object(key).NewRangeReader(ctx, 0, size)
	if errors.Is(err, storage.ErrObjectNotExist) {
		err = jobs.ErrNoObject
	}
	if err != nil {
		return nil, fmt.Errorf("open object %s: %w", key, err)
	}
	return object, nil
}

// Put writes a small object under a key that is still free.
func (s *Store) Put(ctx context.Context, key string, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()

	object := s.bucket.Object(key).If(storage.Conditions{DoesNotExist: true}).NewWriter(ctx)
	object.ContentType = "text/plain"
	_, err := object.Write(data)
	if err := errors.Join(err, object.Close()); err != nil {
		return fmt.Errorf("write object %s: %w", key, err)
	}
	return nil
}
