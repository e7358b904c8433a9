package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"cloud.google.com/go/storage"
	"github.com/reelay/reelay/features/doctor"
	"github.com/reelay/reelay/jobs"
)

var (
	_ doctor.ExaminedObjects = (*Store)(nil)
	_ jobs.InputObjects      = (*Store)(nil)
)

// writeTimeout bounds the writing of a whole object.
const writeTimeout = time.Minute

// Open reads the first size bytes of the object under key, or returns
// jobs.ErrNoObject.
func (s *Store) Open(ctx context.Context, key string, size int64) (io.ReadCloser, error) {
	// The client does not verify the checksum of a range, and the caller wants to examine the
	// bytes as they are.
	return s.OpenRange(ctx, key, 0, size)
}

// OpenRange reads size bytes of the object under key from offset on, or fewer if it ends before. It
// returns jobs.ErrNoObject if there is none.
func (s *Store) OpenRange(ctx context.Context, key string, offset, size int64) (io.ReadCloser, error) {
	object, err := s.bucket.Object(key).NewRangeReader(ctx, offset, size)
	if errors.Is(err, storage.ErrObjectNotExist) {
		err = jobs.ErrNoObject
	}
	if err != nil {
		return nil, fmt.Errorf("open object %s: %w", key, err)
	}
	return object, nil
}

// Write stores a whole object under an unused key, or nothing. The store compares its
// checksum.
func (s *Store) Write(ctx context.Context, u jobs.Upload, data []byte) error {
	if err := checkUpload(u); err != nil {
		return err
	}
	sum, err := decodeChecksum(u.Checksum)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	out := s.bucket.Object(u.Key).If(storage.Conditions{DoesNotExist: true}).NewWriter(ctx)
	out.ContentType, out.ChunkSize = u.ContentType, 0 // one request: see handler.upload
	out.SendCRC32C, out.CRC32C = true, sum
	if _, err := out.Write(data); err != nil {
		return fmt.Errorf("write object %s: %w", u.Key, errors.Join(err, out.Close()))
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("write object %s: %w", u.Key, err)
	}
	return nil
}

// Put writes a small object under an unused key.
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
