package blob

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"cloud.google.com/go/storage"
	"github.com/reelay/reelay/jobs"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/iterator"
	"google.golang.org/api/option"
)

const (
	// callTimeout bounds one call to the store with all its tries, and tryTimeout one try.
	callTimeout = 10 * time.Second
	tryTimeout  = 3 * time.Second
	// firstPause is the maximum pause after the first try. The maximum doubles with each try.
	firstPause = 200 * time.Millisecond
	// maxTTL is the maximum life of a V4 signed URL.
	maxTTL = 7 * 24 * time.Hour
)

// Config locates the object store.
type Config struct {
	// Bucket is the bucket that holds every object.
	Bucket string
	// EmulatorHost is the emulator to use instead of Google Cloud Storage, as host:port or a
	// URL, which may contain a user and a password. LinkKey is for its links only.
	EmulatorHost string
	// LinkKey signs the links: 32 random bytes, the same in every process.
	LinkKey []byte

	// Now is the clock by which links are signed and checked. It must be the same in every
	// process. Nil means the clock of this process.
	Now func() time.Time
}

// Store is a bucket and the links into it. It implements jobs.Objects.
type Store struct {
	client  *storage.Client
	bucket  *storage.BucketHandle
	signer  signer
	handler http.Handler
	now     func() time.Time
}

// signer makes links whose terms are enforced by the store or by Handler.
type signer interface {
	// signUpload returns the link and the headers that the upload must send.
	signUpload(u jobs.Upload, expires time.Time) (jobs.Link, map[string]string, error)
	signDownload(key, filename string, expires time.Time) (jobs.Link, error)
}

// Open connects to the bucket of cfg. An emulator's bucket is created if it is
// missing; a real one must exist. opts are for the storage client: without
// them, Google's default credentials are used.
func Open(ctx context.Context, cfg Config, opts ...option.ClientOption) (*Store, error) {
	if cfg.Bucket == "" {
		return nil, errors.New("open the object store: no bucket is named; set GCS_BUCKET")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	open := openGoogle
	if cfg.EmulatorHost != "" {
		open = openEmulator
	}
	store, err := open(ctx, cfg, opts)
	if err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", cfg.Bucket, err)
	}
	return store, nil
}

// withoutTelemetry turns off the library's measurements: nothing exports them.
var withoutTelemetry = option.WithTelemetryDisabled()

func openGoogle(ctx context.Context, cfg Config, opts []option.ClientOption) (*Store, error) {
	client, err := storage.NewClient(ctx, append([]option.ClientOption{withoutTelemetry}, opts...)...)
	if err != nil {
		return nil, err
	}
	bucket := client.Bucket(cfg.Bucket)
	return &Store{client: client, bucket: bucket, signer: googleSigner{bucket}, handler: http.NotFoundHandler(), now: cfg.Now}, nil
}

func openEmulator(ctx context.Context, cfg Config, opts []option.ClientOption) (*Store, error) {
	links, err := newLinkSigner(cfg.LinkKey)
	if err != nil {
		return nil, err
	}
	host := cfg.EmulatorHost
	if !strings.Contains(host, "://") {
		host = "http://" + host
	}
	endpoint, err := url.Parse(host)
	if err != nil || endpoint.Host == "" {
		return nil, errors.New("STORAGE_EMULATOR_HOST is not the address of an emulator") // it may contain a password
	}
	user := endpoint.User
	endpoint.User = nil
	opts = append([]option.ClientOption{
		withoutTelemetry, option.WithEndpoint(endpoint.JoinPath("/storage/v1/").String()), storage.WithJSONReads(),
		option.WithHTTPClient(&http.Client{Transport: emulatorTransport(user)}),
	}, opts...)
	client, err := storage.NewClient(ctx, opts...)
	if err != nil {
		return nil, err
	}
	store := &Store{client: client, bucket: client.Bucket(cfg.Bucket), signer: links, now: cfg.Now}
	store.handler = &handler{store: store, links: links, stallLimit: stallLimit}
	if err := store.createBucket(ctx); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return store, nil
}

// emulatorTransport sends a user's password with each request.
func emulatorTransport(user *url.Userinfo) http.RoundTripper {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = maxIdleEmulator
	if user == nil {
		return transport
	}
	return authenticated{transport, user}
}

// maxIdleEmulator is how many idle connections to an emulator are kept, as many as the library
// keeps to Google.
const maxIdleEmulator = 100

type authenticated struct {
	http.RoundTripper
	user *url.Userinfo
}

func (a authenticated) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	password, _ := a.user.Password()
	r.SetBasicAuth(a.user.Username(), password)
	return a.RoundTripper.RoundTrip(r)
}

func (s *Store) createBucket(ctx context.Context) error {
	return s.try(ctx, func(ctx context.Context, bucket *storage.BucketHandle) error {
		if _, err := bucket.Attrs(ctx); !errors.Is(err, storage.ErrBucketNotExist) {
			return err
		}
		err := bucket.Create(ctx, "reelay", nil)
		if isStatus(err, http.StatusConflict) { // another process was first
			return nil
		}
		return err
	})
}

// Close ends the connections to the store.
func (s *Store) Close() error { return s.client.Close() }

// Handler serves the links of a store on an emulator. Mount it at /objects/. For a store on
// Google Cloud Storage it only answers 404, because links do not lead here.
func (s *Store) Handler() http.Handler { return s.handler }

// LinkUpload signs a link that stores u once, if its key is unused, and only with the size,
// type and checksum of u.
func (s *Store) LinkUpload(_ context.Context, u jobs.Upload, ttl time.Duration) (jobs.UploadLink, error) {
	if err := checkUpload(u); err != nil {
		return jobs.UploadLink{}, fmt.Errorf("link the upload of %q: %w", u.Key, err)
	}
	expires, err := expiry(s.now(), ttl)
	if err != nil {
		return jobs.UploadLink{}, fmt.Errorf("link the upload of %s: %w", u.Key, err)
	}
	link, headers, err := s.signer.signUpload(u, expires)
	if err != nil {
		return jobs.UploadLink{}, fmt.Errorf("link the upload of %s: %w", u.Key, err)
	}
	return jobs.UploadLink{Link: link, Method: http.MethodPut, Headers: headers, ExpiresAt: expires}, nil
}

// LinkDownload signs a link to read an object, whole or in ranges. It does not check that the
// object exists.
func (s *Store) LinkDownload(_ context.Context, key, filename string, ttl time.Duration) (jobs.Link, error) {
	if err := checkKey(key); err != nil {
		return "", fmt.Errorf("link the download of %q: %w", key, err)
	}
	expires, err := expiry(s.now(), ttl)
	if err != nil {
		return "", fmt.Errorf("link the download of %s: %w", key, err)
	}
	link, err := s.signer.signDownload(key, filename, expires)
	if err != nil {
		return "", fmt.Errorf("link the download of %s: %w", key, err)
	}
	return link, nil
}

// Stat returns the attributes of the object under key, or jobs.ErrNoObject. An object is
// visible only once it is complete.
func (s *Store) Stat(ctx context.Context, key string) (jobs.Object, error) {
	attrs, err := s.attrs(ctx, key)
	if err != nil {
		return jobs.Object{}, fmt.Errorf("stat object %s: %w", key, err)
	}
	return jobs.Object{
		SizeBytes:   attrs.Size,
		Checksum:    encodeChecksum(attrs.CRC32C),
		ContentType: attrs.ContentType,
	}, nil
}

// Delete removes the object under key. It returns nil if there is none.
func (s *Store) Delete(ctx context.Context, key string) error {
	err := s.try(ctx, func(ctx context.Context, bucket *storage.BucketHandle) error {
		return bucket.Object(key).Delete(ctx)
	})
	if err != nil && !errors.Is(err, storage.ErrObjectNotExist) {
		return fmt.Errorf("delete object %s: %w", key, err)
	}
	return nil
}

// List returns at most limit objects, from 1 to 999, whose keys come after the given one,
// ordered by key. It omits uploads in progress.
func (s *Store) List(ctx context.Context, after string, limit int) ([]jobs.StoredObject, error) {
	query := &storage.Query{StartOffset: after} // the store includes this key
	err := query.SetAttrSelection([]string{"Name", "Size", "Created"})
	var found []jobs.StoredObject
	if err == nil {
		err = s.try(ctx, func(ctx context.Context, bucket *storage.BucketHandle) (err error) {
			found, err = list(bucket.Objects(ctx, query), after, limit)
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("list objects after %q: %w", after, err)
	}
	return found, nil
}

func list(objects *storage.ObjectIterator, after string, limit int) ([]jobs.StoredObject, error) {
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

func (s *Store) attrs(ctx context.Context, key string) (attrs *storage.ObjectAttrs, err error) {
	err = s.try(ctx, func(ctx context.Context, bucket *storage.BucketHandle) error {
		attrs, err = bucket.Object(key).Attrs(ctx)
		return err
	})
	if errors.Is(err, storage.ErrObjectNotExist) {
		return nil, jobs.ErrNoObject
	}
	return attrs, err
}

// try makes a repeatable call until the store answers it. If the store is overloaded,
// unreachable or silent, it tries again after a pause. It returns the error of the last try.
func (s *Store) try(ctx context.Context, call func(context.Context, *storage.BucketHandle) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	bucket := s.bucket.Retryer(storage.WithPolicy(storage.RetryNever)) // the library would wait for a silent store
	for pause := firstPause; ; pause *= 2 {
		err := callOnce(ctx, bucket, call)
		if err == nil || !storage.ShouldRetry(err) && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		select {
		case <-time.After(pause/2 + rand.N(pause/2)):
		case <-ctx.Done():
			return err
		}
	}
}

func callOnce(ctx context.Context, bucket *storage.BucketHandle, call func(context.Context, *storage.BucketHandle) error) error {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	return call(ctx, bucket)
}

// expiry returns the end of a link in whole seconds, which both kinds of links use.
func expiry(now time.Time, ttl time.Duration) (time.Time, error) {
	if ttl <= 0 || ttl > maxTTL {
		return time.Time{}, fmt.Errorf("a link lives up to %s, not %s", maxTTL, ttl)
	}
	return now.Add(ttl).UTC().Truncate(time.Second), nil
}

func isStatus(err error, status int) bool {
	var answer *googleapi.Error
	return errors.As(err, &answer) && answer.Code == status
}
