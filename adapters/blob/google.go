package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"cloud.google.com/go/storage"
	"github.com/reelay/reelay/jobs"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/iterator"
	"google.golang.org/api/option"
)

// withoutTelemetry turns off the library's measurements: nothing exports them.
var withoutTelemetry = option.WithTelemetryDisabled()

// googleBucket is a bucket of Google Cloud Storage or of an emulator of it.
type googleBucket struct {
	client *storage.Client
	bucket *storage.BucketHandle
	// class is the storage class of new objects; "" is the bucket's own.
	class string
}

func openGoogle(ctx context.Context, cfg Config, opts []option.ClientOption) (*googleBucket, error) {
	client, err := storage.NewClient(ctx, append([]option.ClientOption{withoutTelemetry}, opts...)...)
	if err != nil {
		return nil, err
	}
	return &googleBucket{client: client, bucket: client.Bucket(cfg.Place.Bucket), class: cfg.Place.Class}, nil
}

// once is the bucket without the library's own tries: it would wait for a silent store.
func (b *googleBucket) once() *storage.BucketHandle {
	return b.bucket.Retryer(storage.WithPolicy(storage.RetryNever))
}

func (b *googleBucket) stat(ctx context.Context, key string) (attributes, error) {
	attrs, err := b.once().Object(key).Attrs(ctx)
	if err != nil {
		return attributes{}, googleError(err)
	}
	return googleAttributes(attrs), nil
}

func googleAttributes(attrs *storage.ObjectAttrs) attributes {
	return attributes{
		Object: jobs.Object{SizeBytes: attrs.Size, Checksum: encodeChecksum(attrs.CRC32C), ContentType: attrs.ContentType},
		// There is only one generation, unless the object was deleted in between.
		etag:      strconv.Quote(strconv.FormatInt(attrs.Generation, 10)),
		createdAt: attrs.Created,
	}
}

func (b *googleBucket) remove(ctx context.Context, key string) error {
	return googleError(b.once().Object(key).Delete(ctx))
}

func (b *googleBucket) list(ctx context.Context, after string, limit int) ([]jobs.StoredObject, error) {
	query := &storage.Query{StartOffset: after} // the store includes this key
	if err := query.SetAttrSelection([]string{"Name", "Size", "Created"}); err != nil {
		return nil, err
	}
	objects := b.once().Objects(ctx, query)
	objects.PageInfo().MaxSize = limit + 1
	var found []jobs.StoredObject
	for len(found) < limit {
		attrs, err := objects.Next()
		if errors.Is(err, iterator.Done) {
			break
		}
		if err != nil {
			return nil, err
		}
		if attrs.Name != after {
			found = append(found, jobs.StoredObject{Key: attrs.Name, SizeBytes: attrs.Size, CreatedAt: attrs.Created})
		}
	}
	return found, nil
}

func (b *googleBucket) read(ctx context.Context, key string, offset, size int64) (io.ReadCloser, error) {
	object, err := b.bucket.Object(key).NewRangeReader(ctx, offset, size)
	if err != nil {
		return nil, googleError(err)
	}
	return object, nil
}

func (b *googleBucket) write(ctx context.Context, u jobs.Upload, body io.Reader) (attributes, error) {
	sum, err := decodeChecksum(u.Checksum)
	if err != nil {
		return attributes{}, err
	}
	// An upload that is not closed is undone when its context ends.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out := b.bucket.Object(u.Key).If(storage.Conditions{DoesNotExist: true}).NewWriter(ctx)
	out.ContentType, out.StorageClass = u.ContentType, b.class
	out.SendCRC32C, out.CRC32C = true, sum
	// Send everything in one request. With several, fake-gcs-server would forget the checksum
	// after the first, and keep the parts of an interrupted upload.
	out.ChunkSize = 0
	if _, err := io.CopyBuffer(out, body, make([]byte, min(u.SizeBytes+1, copyBytes))); err != nil {
		return attributes{}, googleError(err)
	}
	if err := out.Close(); err != nil {
		return attributes{}, googleError(err)
	}
	return googleAttributes(out.Attrs()), nil
}

func (b *googleBucket) repeatable(err error) bool { return storage.ShouldRetry(err) }

func (b *googleBucket) close() error { return b.client.Close() }

// googleError translates the errors that this package knows.
func googleError(err error) error {
	switch {
	case errors.Is(err, storage.ErrObjectNotExist):
		return jobs.ErrNoObject
	case isStatus(err, http.StatusPreconditionFailed):
		return errStored
	}
	return err
}

func isStatus(err error, status int) bool {
	var answer *googleapi.Error
	return errors.As(err, &answer) && answer.Code == status
}

// googleSigner signs V4 URLs of Google Cloud Storage. If the credentials are a service
// account's key file, it signs with that key. Otherwise it calls IAM's signBlob, for which the
// service account must be a token creator of itself. A link ends at expires, but its start is
// this host's current time: Google refuses a link that starts more than 15 minutes in its
// future.
type googleSigner struct {
	*googleBucket
}

func (s googleSigner) signUpload(_ context.Context, u jobs.Upload, expires time.Time) (jobs.Link, map[string]string, error) {
	// The store refuses a request whose headers differ from the signed ones, so each header is
	// a term of the link.
	terms := [][2]string{
		{"x-goog-content-length-range", fmt.Sprintf("%d,%d", u.SizeBytes, u.SizeBytes)},
		{"x-goog-hash", "crc32c=" + u.Checksum},
		{"x-goog-if-generation-match", "0"},
	}
	if s.class != "" {
		terms = append(terms, [2]string{"x-goog-storage-class", s.class})
	}
	headers := map[string]string{"content-type": u.ContentType}
	var signed []string
	for _, term := range terms {
		headers[term[0]] = term[1]
		signed = append(signed, term[0]+":"+term[1])
	}
	link, err := s.bucket.SignedURL(u.Key, &storage.SignedURLOptions{
		Scheme:      storage.SigningSchemeV4,
		Method:      http.MethodPut,
		Expires:     expires,
		ContentType: u.ContentType,
		Headers:     signed,
	})
	return jobs.Link(link), headers, err
}

func (s googleSigner) signDownload(_ context.Context, key, filename string, expires time.Time) (jobs.Link, error) {
	link, err := s.bucket.SignedURL(key, &storage.SignedURLOptions{
		Scheme:          storage.SigningSchemeV4,
		Method:          http.MethodGet,
		Expires:         expires,
		QueryParameters: url.Values{"response-content-disposition": {disposition(filename)}},
	})
	return jobs.Link(link), err
}

func (googleSigner) origin() string { return "https://storage.googleapis.com" }
