package blob

import (
	"context"
	"net/http"
	"testing"
	"time"

	"cloud.google.com/go/storage"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/reelay/reelay/jobs"
	"google.golang.org/api/option"
)

// SmallUpload is smallUpload.
const SmallUpload = smallUpload

// HandlerWithStallLimit is Handler with that stallLimit.
func (s *Store) HandlerWithStallLimit(limit time.Duration) http.Handler {
	h := *s.handler
	h.stallLimit = limit
	return &h
}

// LimitSinglePut changes the size of the largest object that one request stores.
func (s *Store) LimitSinglePut(size int64) { s.backend.(*s3Bucket).singlePut = size }

// KeysIn returns the keys in a file of Amazon's form.
func KeysIn(file string) *credentials.Credentials {
	return credentials.New(newKeysFile(file))
}

// DirectUpload signs a link that leads to the bucket.
func (s *Store) DirectUpload(t *testing.T, u jobs.Upload) (string, map[string]string) {
	link, headers, err := s.direct.signUpload(context.Background(), u, s.now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	return string(link), headers
}

// SignCDN signs a URL with the key in a file.
func SignCDN(file, u, keyName string, expires time.Time) (string, error) {
	key, err := readCDNKey(file)
	if err != nil {
		return "", err
	}
	return key(u, keyName, expires)
}

// CustomersOf returns customers whose buckets of Google Cloud Storage are in an emulator.
func CustomersOf(emulatorHost string) Customers {
	return Customers{google: []option.ClientOption{
		option.WithEndpoint(emulatorHost + "/storage/v1/"), option.WithoutAuthentication(), storage.WithJSONReads(),
	}}
}
