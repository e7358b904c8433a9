package localstack

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/fsouza/fake-gcs-server/fakestorage"
)

// ObjectsConfig says where a private object store keeps its objects.
type ObjectsConfig struct {
	Dir    string // holds everything that it writes
	Bucket string // the bucket that exists from the start
	// Secret is the password that callers must send; "" allows every caller.
	Secret string
	// Listener is the address to serve on; nil is a free loopback port.
	Listener net.Listener
}

// Objects is a Google Cloud Storage emulator inside this process. It checks no
// signatures. No object in it can be overwritten.
type Objects struct {
	bucket   string
	lock     *DirLock
	listener net.Listener
	server   *http.Server
	done     chan struct{}
	err      error
}

// StartObjects serves the objects in config.Dir. If the directory is in use or unusable,
// the error says what to do.
func StartObjects(config ObjectsConfig) (_ *Objects, err error) {
	dir, lock, err := takeDir(config.Dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Release())
		}
	}()
	buckets := filepath.Join(dir, "buckets")
	if err := dropHalfWritten(buckets); err != nil {
		return nil, fmt.Errorf("look through the objects in %s: %w", dir, err)
	}
	listener := config.Listener
	if listener == nil {
		if listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return nil, fmt.Errorf("serve objects: %w", err)
		}
		defer func() {
			if err != nil {
				err = errors.Join(err, listener.Close())
			}
		}()
	}
	handler, err := emulator(buckets, config.Bucket, listener.Addr().String())
	if err != nil {
		return nil, fmt.Errorf("open the objects in %s: %w", dir, err)
	}
	objects := &Objects{
		bucket: config.Bucket, lock: lock, listener: listener,
		server: &http.Server{Handler: &objectGuard{handler, config.Secret}, ReadHeaderTimeout: 10 * time.Second},
		done:   make(chan struct{}),
	}
	go func() {
		defer close(objects.done)
		if err := objects.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			objects.err = fmt.Errorf("the object store ended unexpectedly: %w", err)
		}
	}()
	return objects, nil
}

// temporary matches the names of files in which the emulator writes an object. No name of
// an object begins with a dot.
var temporary = regexp.MustCompile(`^\..+[0-9]$`)

// dropHalfWritten removes the files of an emulator that was killed during a write. The
// writes were not confirmed, and with these files the emulator cannot list its bucket.
func dropHalfWritten(buckets string) error {
	err := filepath.WalkDir(buckets, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || !temporary.MatchString(entry.Name()) {
			return err
		}
		return os.Remove(path)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil // there is no bucket yet
	}
	return err
}

// emulator is the handler of a store in root that answers at address.
func emulator(root, bucket, address string) (_ http.Handler, err error) {
	server, err := fakestorage.NewServerWithOptions(fakestorage.Options{
		NoListener: true, Scheme: "http", StorageRoot: root, ExternalURL: "http://" + address, PublicHost: address,
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("make bucket %q: %v", bucket, reason) // the library panics
		}
	}()
	server.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: bucket})
	return &pager{server.HTTPHandler(), root}, nil
}

// Host returns its address in the form of STORAGE_EMULATOR_HOST.
func (o *Objects) Host() string { return o.listener.Addr().String() }

// Bucket returns the name of the bucket that exists from the start.
func (o *Objects) Bucket() string { return o.bucket }

// Done returns a channel that is closed when the store has ended.
func (o *Objects) Done() <-chan struct{} { return o.done }

// Err returns, once Done is closed, why the store ended. It is nil if Stop ended it.
func (o *Objects) Err() error {
	select {
	case <-o.done:
		return o.err
	default:
		return nil
	}
}

// Stop waits for open requests until ctx ends, aborts the rest, and unlocks the
// directory.
func (o *Objects) Stop(ctx context.Context) error {
	err := o.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, o.server.Close())
	}
	<-o.done
	return errors.Join(err, o.lock.Release())
}

// objectGuard passes only the requests that Reelay makes to the emulator, and only with
// the secret. The emulator itself lets every caller overwrite, copy and change objects.
type objectGuard struct {
	http.Handler        // the emulator
	secret       string // the password of HTTP's basic authentication; "" asks for none
}

var (
	bucketPath = regexp.MustCompile(`^/storage/v1/b/[^/]+(/o)?$`)
	objectPath = regexp.MustCompile(`^(/download)?/storage/v1/b/[^/]+/o/[^/]+$`)
	uploadPath = regexp.MustCompile(`^/upload/storage/v1/b/[^/]+/o$`)
)

// ServeHTTP implements http.Handler.
func (g *objectGuard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, secret, _ := r.BasicAuth()
	switch {
	case g.secret != "" && subtle.ConstantTimeCompare([]byte(secret), []byte(g.secret)) != 1:
		http.Error(w, "This object store serves only the Reelay that started it.", http.StatusUnauthorized)
	case !permitted(r):
		http.Error(w, "This object store can only read, list, delete and create objects. An object cannot be overwritten.", http.StatusForbidden)
	default:
		g.Handler.ServeHTTP(w, r)
	}
}

// permitted reports whether a request reads an object, deletes one, or creates a new one.
func permitted(r *http.Request) bool {
	path, query := r.URL.EscapedPath(), r.URL.Query()
	if r.Header.Get("X-Http-Method-Override") != "" {
		return false
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return bucketPath.MatchString(path) || objectPath.MatchString(path)
	case http.MethodDelete:
		return objectPath.MatchString(path)
	case http.MethodPost:
		return uploadPath.MatchString(path) && query.Get("uploadType") == "multipart" && query.Get("ifGenerationMatch") == "0"
	}
	return false
}
