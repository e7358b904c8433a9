package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/seal"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/webhooks"
	"github.com/uptrace/bun"
)

// BucketKeys are the keys of a bucket of an account: two for S3, or a service account for Google Cloud
// Storage.
type BucketKeys struct {
	AccessKey string `json:"accessKey,omitempty"`
	SecretKey string `json:"secretKey,omitempty"`
	// ServiceAccount is the JSON of its key file.
	ServiceAccount string `json:"serviceAccount,omitempty"`
}

// Bucket is a bucket of an account, or a folder in it.
type Bucket interface {
	// Write stores an object of which body is the content, whole or not at all. It returns ErrOccupied if
	// another object has the key, and nil if this one was stored before.
	Write(ctx context.Context, u jobs.Upload, body io.Reader) error
	Delete(ctx context.Context, key string) error
	Close() error
}

// ErrOccupied means that another object has the key.
var ErrOccupied = errors.New("another object has this name, and it is not overwritten")

// Buckets opens buckets of accounts. An error of Open says what is wrong with the place or the keys, in
// words for their owner.
type Buckets interface {
	Open(ctx context.Context, place string, keys BucketKeys) (Bucket, error)
}

const (
	// maxBucketKeys bounds the JSON of keys. A service account's has 2.5 kB.
	maxBucketKeys = 16 << 10
	// bucketTest limits the test of a bucket that is set up.
	bucketTest = 20 * time.Second
)

// CreateBucketEndpoint makes an endpoint that gets the videos of the account's jobs: a bucket of the
// account, as s3://BUCKET/FOLDER/?region=… or gs://BUCKET/FOLDER/. It writes an object there and deletes
// it. It returns INVALID_INPUT (url, keys) if that fails, or CONFLICT if the account has as many endpoints
// as it may have, or the id is taken.
func (w *Endpoints) CreateBucketEndpoint(ctx context.Context, p jobs.Principal, id models.WebhookEndpointID, url string,
	keys BucketKeys) (*webhooks.Endpoint, error) {
	if err := p.RequireChange(); err != nil {
		return nil, err
	}
	if !id.Valid() {
		return nil, apierror.Invalid("id", "This is no id of an endpoint.")
	}
	sealed, err := w.provenKeys(ctx, id, url, keys)
	if err != nil {
		return nil, err
	}
	endpoint := &webhooks.Endpoint{
		ID: id, AccountID: p.AccountID, URL: url, Format: webhooks.FormatBucket, Events: change.WebhookEvents[webhooks.FormatBucket],
		Secret: sealed.Ciphertext, SecretKey: sealed.WrappedKey,
	}
	if err := w.insert(ctx, p, endpoint); err != nil {
		return nil, apierror.Wrap(err, "create a bucket endpoint")
	}
	return endpoint, nil
}

// SetBucketKeys replaces the keys of a bucket, after a test as of a new one. Only the endpoint's own account
// may do it.
func (w *Endpoints) SetBucketKeys(ctx context.Context, p jobs.Principal, id models.WebhookEndpointID, keys BucketKeys) (
	*webhooks.Endpoint, error,
) {
	if err := p.RequireChange(); err != nil {
		return nil, err
	}
	endpoint, err := query.VisibleEndpoint(ctx, w.DB, p, id)
	if err != nil {
		return nil, err
	}
	switch {
	case endpoint.AccountID != p.AccountID:
		return nil, apierror.Forbidden("This endpoint belongs to another account: only a key of that account can replace its keys.")
	case endpoint.Format != webhooks.FormatBucket:
		return nil, apierror.Conflict("This endpoint is no bucket: replace its secret with rotateWebhookSecret.")
	}
	sealed, err := w.provenKeys(ctx, id, endpoint.URL, keys)
	if err != nil {
		return nil, err
	}
	err = jobs.InTx(ctx, w.DB, func(ctx context.Context, tx bun.Tx) error {
		return apierror.OrNotFound(webhooks.SetBucketKeys(ctx, tx, id, sealed.Ciphertext, sealed.WrappedKey), "webhook endpoint")
	})
	return endpoint, apierror.Wrap(err, "set the keys of %s", id)
}

// provenKeys seals keys that can write into the bucket.
func (w *Endpoints) provenKeys(ctx context.Context, id models.WebhookEndpointID, url string, keys BucketKeys) (seal.Sealed, error) {
	text, err := json.Marshal(keys)
	if err != nil || len(text) > maxBucketKeys {
		return seal.Sealed{}, apierror.Invalid("keys", "The keys of a bucket have at most %d bytes.", maxBucketKeys)
	}
	ctx, cancel := context.WithTimeout(ctx, bucketTest)
	defer cancel()
	bucket, err := w.Buckets.Open(ctx, url, keys)
	if err != nil {
		return seal.Sealed{}, apierror.Invalid("url", "%s.", sentence(err))
	}
	defer bucket.Close()
	if err := testBucket(ctx, bucket, string(id)); err != nil {
		return seal.Sealed{}, apierror.Invalid("keys", "A test object could not be written into this bucket: %s.", sentence(err))
	}
	sealed, err := w.Sealer.Seal(text, []byte(id))
	return sealed, apierror.Wrap(err, "seal the keys of a bucket")
}

// testBucket writes a small object and deletes it. Keys that may not delete are enough.
func testBucket(ctx context.Context, bucket Bucket, name string) error {
	key := "reelay-test-" + name + ".txt"
	if err := bucket.Write(ctx, jobs.UploadOf(key, "text/plain", []byte(testText)), strings.NewReader(testText)); err != nil {
		return err
	}
	_ = bucket.Delete(ctx, key)
	return nil
}

// testText is the content of a test object.
const testText = "Reelay can write into this bucket.\n"

// sentence is an error without its full stop.
func sentence(err error) string { return strings.TrimRight(err.Error(), ".\n ") }
