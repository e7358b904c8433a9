package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/reelay/reelay/cmd/reelay/internal/credentials"
	"github.com/reelay/reelay/internal/localstack"
)

// substack is a `reelay up` in a child process.
type substack struct {
	credentials.Keys
	child  *localstack.Child
	data   string
	remove bool
}

// stackStart is how long a stack may take until it is ready. Its first start creates a
// database.
const stackStart = 90 * time.Second

// newSubstack makes the folder of a stack. Without a name it is a temporary one, which stop
// removes.
func newSubstack(data string) (*substack, error) {
	s := &substack{data: data}
	return s, s.makeFolder()
}

// start starts `reelay up` on a free port, with more arguments and variables of the
// environment, and returns when it is ready.
func (s *substack) start(ctx context.Context, args, env []string) (err error) {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	log := filepath.Join(s.data, "up.log")
	if err := os.WriteFile(log, nil, 0o600); err != nil {
		return fmt.Errorf("write the stack's log: %w", err)
	}
	s.child, err = localstack.StartChild(localstack.ChildConfig{
		Name: "reelay up", Path: program, Log: log, Grace: 30 * time.Second,
		Args: append([]string{"up", "--listen", "127.0.0.1:0", "--data", s.data}, args...),
		Env:  append(os.Environ(), env...),
	})
	if err != nil {
		return err
	}
	if err := s.waitReady(ctx, log); err != nil {
		return err
	}
	s.Keys, err = credentials.Read(s.data)
	return err
}

func (s *substack) makeFolder() error {
	if s.data != "" {
		return os.MkdirAll(s.data, 0o711)
	}
	dir, err := os.MkdirTemp("", "reelay-")
	if err != nil {
		return fmt.Errorf("make a temporary folder: %w", err)
	}
	s.data, s.remove = dir, true
	// A PostgreSQL that root starts runs as another user, which must enter the folder.
	return os.Chmod(dir, 0o711)
}

// waitReady reads the log until the stack reports that it is ready.
func (s *substack) waitReady(ctx context.Context, log string) error {
	file, err := os.Open(log)
	if err != nil {
		return err
	}
	defer file.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, stackStart, fmt.Errorf("the stack was not ready within %v", stackStart))
	defer cancel()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	in, line := bufio.NewReader(file), ""
	for {
		part, err := in.ReadString('\n')
		line += part
		switch {
		case err == nil && strings.HasPrefix(line, "ready http"):
			return nil
		case err == nil:
			line = ""
			continue
		case err != io.EOF:
			return fmt.Errorf("read the stack's log: %w", err)
		}
		select {
		case <-look.C:
		case <-s.child.Done():
			return s.child.Err()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// stop ends the stack and everything it started.
func (s *substack) stop() error {
	var err error
	if s.child != nil {
		err = s.child.Stop(context.Background()) // bounded by its grace
	}
	if s.remove {
		err = errors.Join(err, os.RemoveAll(s.data))
	}
	return err
}
