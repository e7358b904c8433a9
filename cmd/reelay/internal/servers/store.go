package servers

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/reelay/reelay/cmd/reelay/internal/front"
	"github.com/reelay/reelay/cmd/reelay/internal/settings"
	"github.com/reelay/reelay/internal/localstack"
	"github.com/spf13/cobra"
)

// storeBucket is the bucket of the object store of `up`.
const storeBucket = "reelay"

// store is the object store of `up`: a child process of this program. It keeps its
// address across restarts.
type store struct {
	*localstack.Child
	config  localstack.ChildConfig
	socket  *os.File
	address string
	secret  string // the password of its callers
}

const (
	storeUser = "reelay"
	// storeSecret is the variable that passes the password to the child.
	storeSecret = "REELAY_STORE_SECRET"
)

// host returns the address of the store in the form of STORAGE_EMULATOR_HOST.
func (s *store) host() string {
	return (&url.URL{Scheme: "http", User: url.UserPassword(storeUser, s.secret), Host: s.address}).String()
}

// startStore serves the objects in dir and returns once they are served. If the
// directory is in use or unusable, the error says what to do.
func startStore(ctx context.Context, dir string) (_ *store, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program, to run it again: %w", err)
	}
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return nil, fmt.Errorf("make a folder for objects: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("serve objects: %w", err)
	}
	defer listener.Close()
	s := &store{address: listener.Addr().String(), secret: rand.Text()}
	if s.socket, err = front.Inheritable(listener); err != nil {
		return nil, fmt.Errorf("hand the object store's socket down: %w", err)
	}
	s.config = localstack.ChildConfig{
		Name: "the object store", Path: self, Args: []string{"store", "--data", dir},
		Env: append(os.Environ(), "REELAY_LISTEN=fd:3", storeSecret+"="+s.secret), Files: []*os.File{s.socket},
		Log: filepath.Join(dir, "store.log"), Grace: processGrace,
	}
	if _, err := s.restart(ctx); err != nil {
		return nil, errors.Join(err, s.socket.Close())
	}
	return s, nil
}

// storeStart limits the start of an object store.
const storeStart = 30 * time.Second

// restart starts it with the same objects and returns once it answers.
func (s *store) restart(ctx context.Context) (*localstack.Child, error) {
	child, err := localstack.StartChild(s.config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, storeStart)
	defer cancel()
	go func() { // the socket accepts connections even if no process serves it
		select {
		case <-child.Done():
			cancel()
		case <-ctx.Done():
		}
	}()
	if err := s.call(ctx, http.MethodGet, "/storage/v1/b/"+storeBucket, ""); err != nil {
		err = cmp.Or(child.Err(), fmt.Errorf("the object store does not answer: %w", err))
		child.Kill()
		return nil, err
	}
	s.Child = child
	return child, nil
}

// call makes one request and returns an error unless it succeeds.
func (s *store) call(ctx context.Context, method, path, body string) error {
	request, err := http.NewRequestWithContext(ctx, method, "http://"+s.address+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Close = true
	request.SetBasicAuth(storeUser, s.secret)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	response.Body.Close()
	if response.StatusCode >= http.StatusMultipleChoices {
		return errors.New(response.Status)
	}
	return nil
}

func (s *store) stop(ctx context.Context) error {
	return errors.Join(s.Child.Stop(ctx), s.socket.Close())
}

// StoreCommand is the command that startStore runs.
func StoreCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use: "store", Short: "Serve the objects in a folder, for `reelay up`", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// Before each write the emulator tests whether it can write to TMPDIR, which costs
			// four more files than the write itself. If TMPDIR is not a folder, it skips the
			// test and writes beside the object.
			if err := os.Setenv("TMPDIR", os.DevNull); err != nil {
				return err
			}
			listener, err := front.Listen(settings.Read().Listen)
			if err != nil {
				return err
			}
			objects, err := localstack.StartObjects(localstack.ObjectsConfig{Dir: dir, Bucket: storeBucket, Secret: os.Getenv(storeSecret),
				Listener: listener})
			if err != nil {
				return errors.Join(err, listener.Close())
			}
			select {
			case <-cmd.Context().Done():
			case <-objects.Done():
			}
			ctx, cancel := context.WithTimeout(context.WithoutCancel(cmd.Context()), front.DrainTime)
			defer cancel()
			return errors.Join(objects.Err(), objects.Stop(ctx))
		},
	}
	cmd.Flags().StringVar(&dir, "data", "", "folder for the objects")
	return cmd
}
