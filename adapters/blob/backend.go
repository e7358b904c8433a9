package blob

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/reelay/reelay/jobs"
)

// backend is a bucket of one kind of store. Its calls are made once: Store repeats those that may be
// repeated.
type backend interface {
	// stat returns an object's attributes, or jobs.ErrNoObject.
	stat(ctx context.Context, key string) (attributes, error)
	// remove deletes an object. It returns nil or jobs.ErrNoObject if there is none.
	remove(ctx context.Context, key string) error
	// list returns at most limit objects, from 1 to 999, whose keys come after the given one, in
	// the order of their bytes.
	list(ctx context.Context, after string, limit int) ([]jobs.StoredObject, error)
	// read returns size bytes of an object from offset on, or all of them if size is negative. It
	// returns jobs.ErrNoObject if there is none.
	read(ctx context.Context, key string, offset, size int64) (io.ReadCloser, error)
	// write stores body under an unused key, or nothing. Body fails unless it is what u announces.
	// The error is errStored if the key is in use.
	write(ctx context.Context, u jobs.Upload, body io.Reader) (attributes, error)
	// repeatable reports whether the store may answer the next try of a call that failed with err.
	repeatable(err error) bool
	// policy returns what the bucket does by itself to objects whose keys begin like one of own, or
	// errNoPolicy.
	policy(ctx context.Context, own []string) (policy, error)
	close() error
}

// attributes are what a backend knows of an object.
type attributes struct {
	jobs.Object
	// etag changes if the object is replaced. It has quotes.
	etag      string
	createdAt time.Time
}

// signer makes links whose terms are enforced by the store or by Handler.
type signer interface {
	// signUpload returns the link and the headers that the upload must send.
	signUpload(ctx context.Context, u jobs.Upload, expires time.Time) (jobs.Link, map[string]string, error)
	signDownload(ctx context.Context, key, filename string, expires time.Time) (jobs.Link, error)
	// origin returns the scheme and host of the links; "" is this server.
	origin() string
}

// errStored is the refusal to overwrite an object.
var errStored = &refusal{http.StatusPreconditionFailed, "This object is stored already, and objects are never overwritten."}
