package blob

import (
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/reelay/reelay/jobs"
)

const (
	// maxSinglePut is the largest object that one request can store, at Amazon and most others.
	maxSinglePut = 5 << 30
	// partSize is the size of the parts of larger objects. One part is kept in memory.
	partSize = 64 << 20
	// headerTimeout limits the wait for the response to a request, after its last byte.
	headerTimeout = 30 * time.Second
	// amazon is the endpoint of Amazon S3, which minio-go changes to that of the bucket's region.
	amazon = "https://s3.amazonaws.com"

	checksumHeader = "x-amz-checksum-crc32c"
	// checkedHeader is metadata with the checksum of an object whose bytes a Reelay process has
	// compared with it, for buckets that keep no checksums.
	checkedHeader = "x-amz-meta-reelay-crc32c"
)

// s3Bucket is a bucket of a store that speaks Amazon's protocol.
type s3Bucket struct {
	core  *minio.Core
	http  *http.Client
	name  string
	class string
	// singlePut is maxSinglePut, except in tests.
	singlePut int64
}

func openS3(ctx context.Context, cfg Config) (*s3Bucket, error) {
	endpoint, err := url.Parse(cmp.Or(cfg.Place.Endpoint, amazon))
	if err != nil {
		return nil, err
	}
	keys := cfg.Keys
	if keys == nil {
		keys = usualKeys()
	}
	// Without keys the library would send unsigned requests.
	if value, err := keys.GetWithContext(nil); err != nil || value.AccessKeyID == "" {
		return nil, errors.Join(errNoKeys, err)
	}
	transport := transportOf(cfg)
	lookup := map[string]minio.BucketLookupType{"path": minio.BucketLookupPath, "host": minio.BucketLookupDNS}[cfg.Place.Addressing]
	core, err := minio.NewCore(endpoint.Host, &minio.Options{
		Creds: keys, Secure: endpoint.Scheme == "https", Transport: transport, Region: cfg.Place.Region, BucketLookup: lookup,
		MaxRetries: 1, TrailingHeaders: true, // Store repeats calls
	})
	if err != nil {
		return nil, err
	}
	return &s3Bucket{core: core, http: &http.Client{Transport: transport}, name: cfg.Place.Bucket, class: cfg.Place.Class,
		singlePut: maxSinglePut}, nil
}

func (b *s3Bucket) stat(ctx context.Context, key string) (attributes, error) {
	found, err := b.core.StatObject(ctx, b.name, key, minio.StatObjectOptions{Checksum: true})
	if err != nil {
		return attributes{}, b.explain(ctx, err)
	}
	return attributes{
		Object:    jobs.Object{SizeBytes: found.Size, Checksum: s3Checksum(found), ContentType: found.ContentType},
		etag:      strconv.Quote(found.ETag),
		createdAt: found.LastModified,
	}, nil
}

// s3Checksum returns the checksum of the whole object, or "" if the store has none.
func s3Checksum(o minio.ObjectInfo) string {
	// A checksum of checksums of parts ends in their number: "xxx==-3".
	if o.ChecksumCRC32C != "" && !strings.Contains(o.ChecksumCRC32C, "-") {
		return o.ChecksumCRC32C
	}
	return o.Metadata.Get(checkedHeader)
}

func (b *s3Bucket) remove(ctx context.Context, key string) error {
	return b.explain(ctx, b.core.RemoveObject(ctx, b.name, key, minio.RemoveObjectOptions{}))
}

func (b *s3Bucket) list(ctx context.Context, after string, limit int) ([]jobs.StoredObject, error) {
	// The library's call takes no context.
	type answer struct {
		page minio.ListBucketV2Result
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		page, err := b.core.ListObjectsV2(b.name, "", after, "", "", limit)
		answers <- answer{page, err}
	}()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case a := <-answers:
		if a.err != nil {
			return nil, b.explain(ctx, a.err)
		}
		var found []jobs.StoredObject
		for _, o := range a.page.Contents {
			if o.Key > after && len(found) < limit { // some stores include the key itself, or send more
				found = append(found, jobs.StoredObject{Key: o.Key, SizeBytes: o.Size, CreatedAt: o.LastModified})
			}
		}
		return found, nil
	}
}

func (b *s3Bucket) read(ctx context.Context, key string, offset, size int64) (io.ReadCloser, error) {
	var options minio.GetObjectOptions
	var err error
	switch {
	case size == 0:
		_, err := b.stat(ctx, key)
		return http.NoBody, err
	case size > 0:
		err = options.SetRange(offset, offset+size-1)
	case offset > 0:
		err = options.SetRange(offset, 0)
	}
	if err != nil {
		return nil, err
	}
	object, _, _, err := b.core.GetObject(ctx, b.name, key, options)
	if err != nil {
		return nil, b.explain(ctx, err)
	}
	return object, nil
}

// write sends an object by a link of its own, so that there is one set of terms.
func (b *s3Bucket) write(ctx context.Context, u jobs.Upload, body io.Reader) (attributes, error) {
	if u.SizeBytes > b.singlePut {
		return b.writeParts(ctx, u, body)
	}
	if u.SizeBytes == 0 {
		if _, err := io.Copy(io.Discard, body); err != nil {
			return attributes{}, err
		}
		body = http.NoBody
	}
	terms := b.terms(u)
	terms[checkedHeader] = u.Checksum
	link, err := b.sign(ctx, http.MethodPut, u.Key, nil, terms, time.Now().Add(time.Hour))
	if err != nil {
		return attributes{}, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, link, body)
	if err != nil {
		return attributes{}, err
	}
	request.ContentLength = u.SizeBytes
	for name, value := range terms {
		request.Header.Set(name, value)
	}
	response, err := b.http.Do(request)
	if err != nil {
		return attributes{}, withoutURL(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return attributes{}, b.explain(ctx, answerError(response))
	}
	return attributes{Object: jobs.Object{SizeBytes: u.SizeBytes, Checksum: u.Checksum, ContentType: u.ContentType},
		etag: response.Header.Get("ETag")}, nil
}

// writeParts sends an object that is too large for one request. No store compares the checksum of the
// whole, so body must, and the key must be unused: only Handler comes here, whose keys are of one
// attempt each.
func (b *s3Bucket) writeParts(ctx context.Context, u jobs.Upload, body io.Reader) (attributes, error) {
	if _, err := b.stat(ctx, u.Key); err == nil {
		return attributes{}, errStored
	} else if !errors.Is(err, jobs.ErrNoObject) {
		return attributes{}, err
	}
	options := minio.PutObjectOptions{
		ContentType: u.ContentType, StorageClass: b.class, PartSize: partSize, NumThreads: 1,
		UserMetadata: map[string]string{strings.TrimPrefix(checkedHeader, "x-amz-meta-"): u.Checksum},
	}
	options.SetMatchETagExcept("*")
	stored, err := b.core.Client.PutObject(ctx, b.name, u.Key, body, u.SizeBytes, options)
	if err != nil {
		return attributes{}, b.explain(ctx, err)
	}
	return attributes{Object: jobs.Object{SizeBytes: u.SizeBytes, Checksum: u.Checksum, ContentType: u.ContentType},
		etag: strconv.Quote(stored.ETag)}, nil
}

// terms are the headers that an upload of u must send. The store refuses a request whose signed headers
// differ.
func (b *s3Bucket) terms(u jobs.Upload) map[string]string {
	terms := map[string]string{
		"content-type":   u.ContentType,
		"content-length": strconv.FormatInt(u.SizeBytes, 10),
		"if-none-match":  "*",
		checksumHeader:   u.Checksum,
	}
	if b.class != "" {
		terms["x-amz-storage-class"] = b.class
	}
	return terms
}

func (b *s3Bucket) signUpload(ctx context.Context, u jobs.Upload, expires time.Time) (jobs.Link, map[string]string, error) {
	terms := b.terms(u)
	link, err := b.sign(ctx, http.MethodPut, u.Key, nil, terms, expires)
	delete(terms, "content-length") // clients send it anyway, and browsers let no program set it
	return jobs.Link(link), terms, err
}

func (b *s3Bucket) signDownload(ctx context.Context, key, filename string, expires time.Time) (jobs.Link, error) {
	link, err := b.sign(ctx, http.MethodGet, key, url.Values{"response-content-disposition": {disposition(filename)}}, nil, expires)
	return jobs.Link(link), err
}

func (b *s3Bucket) origin() string {
	// This makes no call: the region is known.
	link, err := b.sign(context.Background(), http.MethodGet, "origin", nil, nil, time.Now().Add(time.Hour))
	if err != nil {
		return ""
	}
	u, err := url.Parse(link)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// sign signs a URL with Amazon's version 4. Its start is this host's current time: stores refuse a link
// that starts more than 15 minutes in their future.
func (b *s3Bucket) sign(ctx context.Context, method, key string, params url.Values, headers map[string]string, expires time.Time) (
	string, error,
) {
	signed := http.Header{}
	for name, value := range headers {
		signed.Set(name, value)
	}
	ttl := min(max(time.Until(expires), time.Second), maxTTL)
	link, err := b.core.PresignHeader(ctx, method, b.name, key, ttl, params, signed)
	if err != nil {
		return "", b.explain(ctx, err)
	}
	return link.String(), nil
}

func (b *s3Bucket) repeatable(err error) bool {
	if e, ok := errors.AsType[minio.ErrorResponse](err); ok {
		return e.StatusCode == http.StatusTooManyRequests || e.StatusCode >= 500 && e.StatusCode != http.StatusNotImplemented &&
			e.StatusCode != http.StatusInsufficientStorage || e.Code == "RequestTimeout" || e.Code == "SlowDown"
	}
	_, lost := errors.AsType[*lostError](err)
	return lost
}

func (b *s3Bucket) close() error {
	b.http.CloseIdleConnections()
	return nil
}

// explain translates the errors that this package knows, and says of others what to do.
func (b *s3Bucket) explain(ctx context.Context, err error) error {
	e, ok := errors.AsType[minio.ErrorResponse](err)
	if !ok {
		return withoutURL(err)
	}
	switch e.Code {
	case minio.NoSuchKey:
		// The response to HEAD has no body, so a missing bucket looks like a missing object.
		if there, err := b.core.BucketExists(ctx, b.name); err == nil && !there {
			return fmt.Errorf("%w: %s", errNoBucket, b.name)
		}
		return jobs.ErrNoObject
	case minio.PreconditionFailed:
		return errStored
	}
	if advice := s3Advice[e.Code]; advice != "" {
		return fmt.Errorf("%s (%s): %w", e.Code, advice, err)
	}
	return fmt.Errorf("%s: %w", e.Code, err)
}

var errNoBucket = errors.New("there is no such bucket")

// s3Advice is what to do about the errors of a store, by their codes.
var s3Advice = map[string]string{
	"NoSuchBucket":                 "create the bucket, or correct its name in REELAY_STORE",
	"AccessDenied":                 "the keys need s3:GetObject, PutObject, DeleteObject on its objects and s3:ListBucket on the bucket",
	"InvalidAccessKeyId":           "the store does not know this access key",
	"XAdminUserNotFound":           "the store does not know this access key",
	"SignatureDoesNotMatch":        "the secret key is wrong, or a proxy changes requests",
	"RequestTimeTooSkewed":         "the clocks of this machine and of the store differ by more than 15 minutes: correct this machine's",
	"AuthorizationHeaderMalformed": "the bucket is in another region: set region in REELAY_STORE",
	"PermanentRedirect":            "the bucket is in another region: set region in REELAY_STORE",
	"QuotaExceeded":                "the bucket is full: raise its quota or shorten the retention",
	"XMinioStorageFull":            "the store is full: add space or shorten the retention",
	"InvalidObjectState":           "the object is in an archive: choose a storage class that can be read at once",
}

// answerError reads the error of a response.
func answerError(response *http.Response) error {
	e := minio.ErrorResponse{}
	text, _ := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if xml.Unmarshal(text, &e) != nil || e.Code == "" {
		e.Code = map[int]string{
			http.StatusPreconditionFailed: minio.PreconditionFailed, http.StatusForbidden: minio.AccessDenied,
		}[response.StatusCode]
		e.Code = cmp.Or(e.Code, response.Status)
	}
	e.StatusCode = response.StatusCode
	return e
}

// lostError is a call without a response of the store.
type lostError struct{ error }

// withoutURL removes the URL from an error of HTTP: it is signed.
func withoutURL(err error) error {
	if request, ok := errors.AsType[*url.Error](err); ok {
		err = &lostError{request.Err}
	}
	return err
}
