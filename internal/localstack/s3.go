package localstack

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// s3Start is how long a start may take.
const s3Start = time.Minute

// S3Config says where a private S3 server keeps its objects.
type S3Config struct {
	Dir    string // holds everything that it writes; objects are plain files in it
	Bucket string // the bucket that exists from the start
	// AccessKey and SecretKey are what callers must sign with; "" makes new ones.
	AccessKey, SecretKey string
}

// S3 is a private server of Amazon's protocol: versitygw, which checks signatures.
type S3 struct {
	*Child
	config  S3Config
	program string
	port    int
	lock    *DirLock
}

var errNoS3 = errors.New("versitygw was not found on the PATH nor beside this program. Install it with `go tool task setup:s3`, " +
	"or from https://github.com/versity/versitygw")

// StartS3 serves the objects in config.Dir. It returns when the server answers. ctx limits the start
// only. If versitygw is missing, or the directory is in use or unusable, the error says what to do.
func StartS3(ctx context.Context, config S3Config) (_ *S3, err error) {
	ctx, cancel := context.WithTimeout(ctx, s3Start)
	defer cancel()
	s := &S3{config: config}
	if s.program, err = findS3(); err != nil {
		return nil, err
	}
	if s.config.AccessKey == "" {
		s.config.AccessKey, s.config.SecretKey = rand.Text(), rand.Text()
	}
	if s.config.Dir, s.lock, err = takeDir(config.Dir); err != nil {
		return nil, err
	}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.lock.Release())
	}
	return s, nil
}

func findS3() (string, error) {
	if path, err := exec.LookPath("versitygw"); err == nil {
		return path, nil
	}
	if self, err := os.Executable(); err == nil {
		if beside := filepath.Join(filepath.Dir(self), "versitygw"); executable(beside) {
			return beside, nil
		}
	}
	return "", errNoS3
}

// root is the folder of buckets.
func (s *S3) root() string { return filepath.Join(s.config.Dir, "buckets") }

func (s *S3) start(ctx context.Context) (err error) {
	if err := os.MkdirAll(filepath.Join(s.root(), s.config.Bucket), 0o700); err != nil {
		return fmt.Errorf("make the bucket %s: %w", s.config.Bucket, err)
	}
	// If another program takes the chosen port first, the next try uses another one.
	for {
		if s.port, err = freePort(); err != nil {
			return err
		}
		if err = s.serve(ctx); !errors.Is(err, errPortTaken) || ctx.Err() != nil {
			return err
		}
	}
}

// serve runs the server and waits until it answers.
func (s *S3) serve(ctx context.Context) error {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))
	child, err := StartChild(ChildConfig{
		Name: "versitygw", Path: s.program, Dir: s.config.Dir, Log: filepath.Join(s.config.Dir, "versitygw.log"),
		Args: []string{"--port", address, "--quiet", "--keep-alive", "--health", s3Health, "posix", s.root()},
		// Keys on the command line would show in the list of processes.
		Env: append(os.Environ(), "ROOT_ACCESS_KEY="+s.config.AccessKey, "ROOT_SECRET_KEY="+s.config.SecretKey),
	})
	if err != nil {
		return err
	}
	if err := answers(ctx, child, func(ctx context.Context) error { return getOK(ctx, "http://"+address+s3Health) }); err != nil {
		child.Kill()
		if strings.Contains(child.lastWords(), "ddress already in use") {
			return fmt.Errorf("%w: %w", errPortTaken, err)
		}
		return err
	}
	s.Child = child
	return nil
}

// s3Health is a path that the server answers if it is well. No bucket has such a name.
const s3Health = "/-health"

func getOK(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers %s", response.Status)
	}
	return nil
}

// Endpoint returns the URL of the server.
func (s *S3) Endpoint() string {
	return "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))
}

// Bucket returns the name of the bucket that exists from the start.
func (s *S3) Bucket() string { return s.config.Bucket }

// MakeBucket makes another bucket unless it exists.
func (s *S3) MakeBucket(name string) error { return os.MkdirAll(filepath.Join(s.root(), name), 0o700) }

// Region returns the region that requests must be signed for.
func (s *S3) Region() string { return "us-east-1" }

// Keys returns the keys that callers must sign with.
func (s *S3) Keys() (access, secret string) { return s.config.AccessKey, s.config.SecretKey }

// Restart starts the server again after it ended unexpectedly, with the same objects and endpoint. It
// returns when the server answers. ctx limits the start only.
func (s *S3) Restart(ctx context.Context) (*Child, error) {
	ctx, cancel := context.WithTimeout(ctx, s3Start)
	defer cancel()
	for {
		err := s.serve(ctx)
		if err == nil {
			return s.Child, nil
		}
		// While the server was away, a connection of another program may have got its port.
		if !errors.Is(err, errPortTaken) || ctx.Err() != nil {
			return nil, err
		}
		time.Sleep(portPause)
	}
}

// Stop ends the server and unlocks its directory.
func (s *S3) Stop(ctx context.Context) error {
	return errors.Join(s.Child.Stop(ctx), s.lock.Release())
}
