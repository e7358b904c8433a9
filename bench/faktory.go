package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/reelay/reelay/internal/localstack"
)

// faktoryStart is how long Faktory and the Redis that it starts may take to start.
const faktoryStart = 20 * time.Second

// startFaktory starts Faktory with its own Redis, in a folder that is removed afterwards.
func (s *Site) startFaktory(ctx context.Context) (string, error) {
	if s.Peers.Faktory == "" {
		return "", errors.New("its program was not found")
	}
	dir, err := os.MkdirTemp("", "faktory-")
	if err != nil {
		return "", err
	}
	address, err := freeAddress()
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	web, err := freeAddress()
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	child, err := localstack.StartChild(localstack.ChildConfig{
		Name: "faktory", Path: s.Peers.Faktory, Log: filepath.Join(dir, "faktory.log"), Grace: faktoryStart,
		Args: []string{"-b", address, "-w", web, "-d", filepath.Join(dir, "db"), "-l", "error"},
		Env:  append(os.Environ(), "HOME="+dir),
	})
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	s.later(func(ctx context.Context) error { return errors.Join(child.Stop(ctx), os.RemoveAll(dir)) })
	ctx, cancel := context.WithTimeoutCause(ctx, faktoryStart, fmt.Errorf("it did not listen within %v", faktoryStart))
	defer cancel()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err == nil {
			return address, conn.Close()
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-child.Done():
			return "", child.Err()
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// freeAddress returns an address at which no process listens now.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}
