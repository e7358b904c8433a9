package blob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/reelay/reelay/features/doctor"
	"github.com/reelay/reelay/jobs"
	"google.golang.org/api/option"
)

var (
	_ doctor.ExaminedObjects = (*Store)(nil)
	_ jobs.InputObjects      = (*Store)(nil)
)

const (
	// callTimeout bounds one call to the store with all its tries, and tryTimeout one try.
	callTimeout = 10 * time.Second
	tryTimeout  = 3 * time.Second
	// writeTimeout bounds the writing of a whole object.
	writeTimeout = time.Minute
	// firstPause is the maximum pause after the first try. The maximum doubles with each try.
	firstPause = 200 * time.Millisecond
	// maxTTL is the maximum life of a signed URL, of Google as of Amazon.
	maxTTL = 7 * 24 * time.Hour
	// maxIdleConns is how many idle connections to a store are kept, as many as Google's library
	// keeps.
	maxIdleConns = 100
)

// Config locates the object store.
type Config struct {
	// Place is the bucket that holds every object, except those in Folders.
	Place Place
	// Folders are beginnings of keys, such as checkpoints/, whose objects have a bucket of their own.
	Folders map[string]Place
	// CDN is in front of the bucket of Place.
	CDN CDN
	// Own are the beginnings of the keys that Reelay makes.
	Own []string
	// EmulatorHost is the emulator to use instead of Google Cloud Storage, as host:port or a
	// URL, which may contain a user and a password.
	EmulatorHost string
	// LinkKeys returns the keys of the links to Handler, each of 32 random bytes, the same in every process.
	// The first one signs, all of them verify.
	LinkKeys func() [][]byte

	// Keys are for S3; nil stands for the usual ones, see usualKeys.
	Keys *credentials.Credentials

	// Transport calls S3; nil stands for one of its own.
	Transport http.RoundTripper

	// Observe is called after each call of the store; it may be nil. The operations are stat, read, write, delete
	// and list, the results ok, missing, exists, refused, throttled, cancelled and error.
	Observe func(operation, result string, took time.Duration)

	// Now is the clock by which links are signed and checked. It must be the same in every
	// process. Nil means the clock of this process.
	Now func() time.Time
}

// Store is a bucket and the links into it. It implements jobs.Objects.
type Store struct {
	backend backend
	place   Place
	// folders are the stores of the folders that have buckets of their own.
	folders map[string]*Store
	// direct signs links to the bucket itself; nil if it enforces no terms.
	direct  signer
	cdn     cdnSigner
	own     []string
	links   linkSigner
	handler *handler
	now     func() time.Time
	// proof is what the bucket was found to enforce; nil until it was asked, and always for Google.
	proof atomic.Pointer[Proof]
	// proved is when ProvePass succeeded last.
	proved time.Time
}

// Open connects to the bucket of cfg. An emulator's bucket is created if it is
// missing; a real one must exist. opts are for Google's client: without
// them, Google's default credentials are used. S3 uses Amazon's usual ones.
func Open(ctx context.Context, cfg Config, opts ...option.ClientOption) (*Store, error) {
	if cfg.Place.Bucket == "" {
		return nil, errors.New("open the object store: no bucket is named; set REELAY_STORE or GCS_BUCKET")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	store, err := open(ctx, cfg, opts)
	if err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", cfg.Place.Bucket, err)
	}
	for folder, place := range cfg.Folders {
		one := cfg
		one.Place, one.Folders, one.CDN = place, nil, CDN{}
		if store.folders[folder], err = Open(ctx, one, opts...); err != nil {
			return nil, errors.Join(err, store.Close())
		}
	}
	return store, nil
}

// of returns the store of an object.
func (s *Store) of(key string) *Store {
	for folder, store := range s.folders {
		if strings.HasPrefix(key, folder) {
			return store
		}
	}
	return s
}

// all returns the stores of all buckets.
func (s *Store) all() []*Store { return append([]*Store{s}, slices.Collect(maps.Values(s.folders))...) }

func open(ctx context.Context, cfg Config, opts []option.ClientOption) (*Store, error) {
	links, err := newLinkSigner(cfg.LinkKeys)
	if err != nil {
		return nil, err
	}
	s := &Store{place: cfg.Place, folders: map[string]*Store{}, cdn: newCDNSigner(cfg.CDN), own: cfg.Own, links: links, now: cfg.Now}
	s.handler = &handler{store: s, links: links, stallLimit: stallLimit}
	switch {
	case cfg.Place.Kind == KindS3:
		bucket, err := openS3(ctx, cfg)
		if err != nil {
			return nil, err
		}
		s.backend, s.direct = bucket, bucket
	case cfg.EmulatorHost != "":
		bucket, err := openEmulator(ctx, cfg, opts)
		if err != nil {
			return nil, err
		}
		s.backend = bucket
		if err := s.try(ctx, bucket.createBucket); err != nil {
			return nil, errors.Join(err, bucket.close())
		}
	default:
		bucket, err := openGoogle(ctx, cfg, opts)
		if err != nil {
			return nil, err
		}
		s.backend, s.direct = bucket, googleSigner{bucket}
	}
	if cfg.Observe != nil {
		s.backend = observed{s.backend, cfg.Observe}
	}
	if cfg.Place.Links == LinksAPI {
		s.direct = nil
	}
	return s, nil
}

// Close ends the connections to the store.
func (s *Store) Close() error {
	var errs []error
	for _, store := range s.all() {
		if store != nil {
			errs = append(errs, store.backend.close())
		}
	}
	return errors.Join(errs...)
}

// Handler serves the links that do not lead to the bucket. Mount it at /objects/.
func (s *Store) Handler() http.Handler { return s.handler }

// Origin returns the scheme and host of links to videos, or "" if they lead to Handler.
func (s *Store) Origin() string {
	if s.cdn.URL != "" {
		return strings.TrimSuffix(s.cdn.URL, "/")
	}
	if s.direct == nil {
		return ""
	}
	return s.direct.origin()
}

// LinkUpload signs a link that stores u once, if its key is unused, and only with the size,
// type and checksum of u.
func (s *Store) LinkUpload(ctx context.Context, u jobs.Upload, ttl time.Duration) (jobs.UploadLink, error) {
	if err := checkUpload(u); err != nil {
		return jobs.UploadLink{}, fmt.Errorf("link the upload of %q: %w", u.Key, err)
	}
	expires, err := expiry(s.now(), ttl)
	if err != nil {
		return jobs.UploadLink{}, fmt.Errorf("link the upload of %s: %w", u.Key, err)
	}
	link, headers, err := s.of(u.Key).uploadSigner(u).signUpload(ctx, u, expires)
	if err != nil {
		return jobs.UploadLink{}, fmt.Errorf("link the upload of %s: %w", u.Key, err)
	}
	return jobs.UploadLink{Link: link, Method: http.MethodPut, Headers: headers, ExpiresAt: expires}, nil
}

// uploadSigner returns the signer of u's link: the bucket's if the bucket is known to enforce the
// link's terms.
func (s *Store) uploadSigner(u jobs.Upload) signer {
	if s.direct == nil || s.place.Kind == KindS3 && u.SizeBytes > maxSinglePut || !s.enforces() {
		return s.links
	}
	return s.direct
}

// enforces reports whether the bucket is known to enforce the terms of writes.
func (s *Store) enforces() bool { return s.place.Kind != KindS3 || s.proof.Load().enforces() }

// LinkDownload signs a link to read an object, whole or in ranges. It does not check that the
// object exists.
func (s *Store) LinkDownload(ctx context.Context, key, filename string, ttl time.Duration) (jobs.Link, error) {
	if err := checkKey(key); err != nil {
		return "", fmt.Errorf("link the download of %q: %w", key, err)
	}
	expires, err := expiry(s.now(), ttl)
	if err != nil {
		return "", fmt.Errorf("link the download of %s: %w", key, err)
	}
	sign := s.links.signDownload
	if direct := s.of(key).direct; s.cdn.serves(key) {
		sign = s.cdn.signDownload
	} else if direct != nil {
		sign = direct.signDownload
	}
	link, err := sign(ctx, key, filename, expires)
	if err != nil {
		return "", fmt.Errorf("link the download of %s: %w", key, err)
	}
	return link, nil
}

// Stat returns the attributes of the object under key, or jobs.ErrNoObject. An object is
// visible only once it is complete.
func (s *Store) Stat(ctx context.Context, key string) (jobs.Object, error) {
	attrs, err := s.stat(ctx, key)
	if err != nil {
		return jobs.Object{}, fmt.Errorf("stat object %s: %w", key, err)
	}
	return attrs.Object, nil
}

func (s *Store) stat(ctx context.Context, key string) (attrs attributes, err error) {
	s = s.of(key)
	err = s.try(ctx, func(ctx context.Context) (err error) {
		attrs, err = s.backend.stat(ctx, key)
		return err
	})
	if err == nil && attrs.Checksum == "" {
		// Only objects that were copied into the bucket by other programs have none.
		attrs.Checksum, err = s.hash(ctx, key)
	}
	return attrs, err
}

// hash reads an object to learn its checksum.
func (s *Store) hash(ctx context.Context, key string) (string, error) {
	object, err := s.backend.read(ctx, key, 0, -1)
	if err != nil {
		return "", err
	}
	defer object.Close()
	sum := newChecksum()
	if _, err := io.Copy(sum, object); err != nil {
		return "", err
	}
	return encodeChecksum(sum.Sum32()), nil
}

// Delete removes the object under key. It returns nil if there is none.
func (s *Store) Delete(ctx context.Context, key string) error {
	places := []*Store{s}
	if own := s.of(key); own != s { // also one of the time before the folder had a bucket of its own
		places = append(places, own)
	}
	for _, s := range places {
		err := s.try(ctx, func(ctx context.Context) error { return s.backend.remove(ctx, key) })
		if err != nil && !errors.Is(err, jobs.ErrNoObject) {
			return fmt.Errorf("delete object %s: %w", key, err)
		}
	}
	return nil
}

// List returns at most limit objects, from 1 to 999, whose keys come after the given one,
// ordered by key. It omits uploads in progress.
func (s *Store) List(ctx context.Context, after string, limit int) ([]jobs.StoredObject, error) {
	var all []jobs.StoredObject
	for _, store := range s.all() {
		err := store.try(ctx, func(ctx context.Context) error {
			found, err := store.backend.list(ctx, after, limit)
			if err == nil {
				all = append(all, found...)
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("list objects after %q: %w", after, err)
		}
	}
	slices.SortFunc(all, func(a, b jobs.StoredObject) int { return strings.Compare(a.Key, b.Key) })
	return all[:min(limit, len(all))], nil
}

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
	object, err := s.of(key).backend.read(ctx, key, offset, size)
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
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if _, err := s.of(u.Key).backend.write(ctx, u, bytes.NewReader(data)); err != nil {
		return fmt.Errorf("write object %s: %w", u.Key, err)
	}
	return nil
}

// Put writes a small object under an unused key.
func (s *Store) Put(ctx context.Context, key string, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return s.Write(ctx, jobs.UploadOf(key, "text/plain", data), data)
}

// try makes a repeatable call until the store answers it. If the store is overloaded,
// unreachable or silent, it tries again after a pause. It returns the error of the last try.
func (s *Store) try(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for pause := firstPause; ; pause *= 2 {
		err := callOnce(ctx, call)
		if err == nil || !s.backend.repeatable(err) && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		select {
		case <-time.After(pause/2 + rand.N(pause/2)):
		case <-ctx.Done():
			return err
		}
	}
}

func callOnce(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	return call(ctx)
}

// expiry returns the end of a link in whole seconds, which all kinds of links use.
func expiry(now time.Time, ttl time.Duration) (time.Time, error) {
	if ttl <= 0 || ttl > maxTTL {
		return time.Time{}, fmt.Errorf("a link lives up to %s, not %s", maxTTL, ttl)
	}
	return now.Add(ttl).UTC().Truncate(time.Second), nil
}
