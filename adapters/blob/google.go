package blob

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"cloud.google.com/go/storage"
	"github.com/reelay/reelay/jobs"
)

// googleSigner signs V4 URLs of Google Cloud Storage. If the credentials are a service
// account's key file, it signs with that key. Otherwise it calls IAM's signBlob, for which the
// service account must be a token creator of itself. A link ends at expires, but its start is
// this host's current time: Google refuses a link that starts more than 15 minutes in its
// future.
type googleSigner struct {
	bucket *storage.BucketHandle
}

func (s googleSigner) signUpload(u jobs.Upload, expires time.Time) (jobs.Link, map[string]string, error) {
	// The store refuses a request whose headers differ from the signed ones, so each header is
	// a term of the link.
	terms := [][2]string{
		{"x-goog-content-length-range", fmt.Sprintf("%d,%d", u.SizeBytes, u.SizeBytes)},
		{"x-goog-hash", "crc32c=" + u.Checksum},
		{"x-goog-if-generation-match", "0"},
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

func (s googleSigner) signDownload(key, filename string, expires time.Time) (jobs.Link, error) {
	link, err := s.bucket.SignedURL(key, &storage.SignedURLOptions{
		Scheme:          storage.SigningSchemeV4,
		Method:          http.MethodGet,
		Expires:         expires,
		QueryParameters: url.Values{"response-content-disposition": {disposition(filename)}},
	})
	return jobs.Link(link), err
}
