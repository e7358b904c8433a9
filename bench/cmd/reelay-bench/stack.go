package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/reelay/reelay/bench"
	"github.com/reelay/reelay/internal/localstack"
	"golang.org/x/sys/unix"
)

const (
	// memory is a folder that Linux keeps in memory.
	memory = "/dev/shm"
	// memoryRoom is how many bytes must be free there: many times the objects of a
	// measurement.
	memoryRoom = 1 << 30
	// stackStart is how long a stack can take until it is ready.
	stackStart = 10 * time.Minute
)

// stack is a `reelay up` without agents, on a temporary data folder.
type stack struct {
	child *localstack.Child
	data  string
	// objects is the folder in memory to which its object store writes. Most sites have the
	// store on another machine, but here each upload would sync two files on the disk for
	// which commits wait. It is empty if a bucket is configured or if the folder is not
	// possible. In the second case lack says why, and the objects are in the data folder.
	objects string
	lack    error
}

// startStack starts a stack on a free port and returns when it is ready. debug makes it log more,
// such as how long each pass takes. store is that of `reelay up`, or empty for its default.
func startStack(ctx context.Context, reelay, store string, debug bool, controls int) (_ *stack, err error) {
	s := &stack{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	if reelay, err = program(reelay); err != nil {
		return nil, err
	}
	if s.data, err = makeDataFolder(); err != nil {
		return nil, err
	}
	models := filepath.Join(s.data, "models")
	if err := os.CopyFS(models, bench.Models()); err != nil {
		return nil, fmt.Errorf("write the models of the measurements: %w", err)
	}
	programs := filepath.Join(s.data, "programs")
	if err := bench.WritePrograms(programs); err != nil {
		return nil, err
	}
	env := append(os.Environ(), "REELAY_MODELS="+models, "REELAY_PROVIDERS="+programs)
	if debug {
		env = append(env, "REELAY_DEBUG=true")
	}
	if store != "" || os.Getenv("GCS_BUCKET") == "" {
		if s.objects, s.lack = makeMemoryFolder(); s.lack == nil {
			if err := os.Symlink(s.objects, filepath.Join(s.data, cmp.Or(store, "objects"))); err != nil {
				return nil, fmt.Errorf("keep the objects in memory: %w", err)
			}
		}
	}
	log := filepath.Join(s.data, "up.log")
	if err := os.WriteFile(log, nil, 0o600); err != nil {
		return nil, fmt.Errorf("write the stack's log: %w", err)
	}
	args := []string{"up", "--listen", "127.0.0.1:0", "--data", s.data, "--agents", "0", "--control", strconv.Itoa(controls)}
	if store != "" {
		args = append(args, "--store", store)
	}
	s.child, err = localstack.StartChild(localstack.ChildConfig{
		Name: "reelay up", Path: reelay, Log: log, Grace: 30 * time.Second, Env: env, Args: args,
	})
	if err != nil {
		return nil, err
	}
	return s, s.waitReady(ctx, log)
}

// makeDataFolder makes a temporary folder that other users may enter, since a PostgreSQL that
// root starts runs as another user.
func makeDataFolder() (string, error) {
	dir, err := os.MkdirTemp("", "reelay-")
	if err != nil {
		return "", fmt.Errorf("make a temporary folder: %w", err)
	}
	return dir, os.Chmod(dir, 0o711)
}

// makeMemoryFolder makes a folder in memory. It returns an error if there is not enough room,
// or if the folder does not support file attributes, which the object store needs.
func makeMemoryFolder() (string, error) {
	var room unix.Statfs_t
	if err := unix.Statfs(memory, &room); err != nil {
		return "", fmt.Errorf("look at %s: %w", memory, err)
	}
	if free := int64(room.Bavail) * int64(room.Bsize); free < memoryRoom {
		return "", fmt.Errorf("%s has room for %d MB: %d would do", memory, free>>20, memoryRoom>>20)
	}
	dir, err := os.MkdirTemp(memory, "reelay-")
	if err != nil {
		return "", fmt.Errorf("make a folder in memory: %w", err)
	}
	if err := unix.Setxattr(dir, "user.reelay", []byte("try"), 0); err != nil {
		return "", errors.Join(fmt.Errorf("set an attribute in %s: %w", memory, err), os.RemoveAll(dir))
	}
	return dir, nil
}

// waitReady reads the log until it says that the stack is ready.
func (s *stack) waitReady(ctx context.Context, log string) error {
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

// stop ends the stack and removes its folders.
func (s *stack) stop() error {
	var err error
	if s.child != nil {
		err = s.child.Stop(context.Background()) // limited by its grace period
	}
	for _, dir := range []string{s.objects, s.data} {
		if dir != "" {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}
	return err
}
