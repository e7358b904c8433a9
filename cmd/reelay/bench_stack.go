package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"syscall"
)

const (
	// benchMemory is the folder that Linux keeps in memory.
	benchMemory = "/dev/shm"
	// benchRoom is how much has to be free there: many times what the objects of a
	// measurement take.
	benchRoom = 1 << 30
)

// benchStack is a stack without agents for a measurement.
type benchStack struct {
	*substack
	// objects is its object store, with its files in memory: on most sites the store is
	// elsewhere, and here each upload would have the disk that commits wait for sync two
	// files. It is nil where a bucket is configured, or where that cannot be
	// (why is in lack then, and the stack has one on its disk).
	objects *memoryStore
	lack    error
}

// startBenchStack starts a stack for a measurement.
func startBenchStack(ctx context.Context) (_ *benchStack, err error) {
	s := &benchStack{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	if readConfig().bucket == "" {
		s.objects, s.lack = startMemoryStore(ctx)
	}
	env := append(os.Environ(), "REELAY_BENCH_MODELS=true")
	if s.objects != nil {
		env = append(env, "GCS_BUCKET="+storeBucket, "STORAGE_EMULATOR_HOST="+s.objects.address)
	}
	s.substack, err = startSubstack(ctx, "", 0, env...)
	return s, err
}

func (s *benchStack) stop() error {
	var err error
	if s.substack != nil {
		err = s.substack.stop()
	}
	if s.objects != nil {
		err = errors.Join(err, s.objects.stop(context.Background())) // bounded by its grace
	}
	return err
}

// memoryStore is an object store whose folder goes with it.
type memoryStore struct {
	*store
	dir string
}

// startMemoryStore serves objects that are in memory. It returns an error if there is
// no room for them, or the system cannot keep what belongs to an object there.
func startMemoryStore(ctx context.Context) (_ *memoryStore, err error) {
	var room syscall.Statfs_t
	if err := syscall.Statfs(benchMemory, &room); err != nil {
		return nil, fmt.Errorf("look at %s: %w", benchMemory, err)
	}
	if free := int64(room.Bavail) * int64(room.Bsize); free < benchRoom {
		return nil, fmt.Errorf("%s has room for %d MB: %d would do", benchMemory, free>>20, benchRoom>>20)
	}
	s := &memoryStore{}
	if s.dir, err = os.MkdirTemp(benchMemory, "reelay-"); err != nil {
		return nil, fmt.Errorf("make a folder in memory: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop(context.WithoutCancel(ctx)))
		}
	}()
	if s.store, err = startStore(ctx, s.dir); err != nil {
		return nil, err
	}
	if err = s.try(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// try keeps an object and drops it again.
func (s *memoryStore) try(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, storeStart)
	defer cancel()
	objects := "/storage/v1/b/" + storeBucket + "/o"
	for _, one := range []struct{ method, path string }{
		{http.MethodPost, "/upload" + objects + "?uploadType=media&name=try"},
		{http.MethodGet, objects + "/try"},
		{http.MethodDelete, objects + "/try"},
	} {
		if err := s.call(ctx, one.method, one.path, "an object"); err != nil {
			return fmt.Errorf("try an object in %s: %s: %w", benchMemory, one.method, err)
		}
	}
	return nil
}

func (s *memoryStore) stop(ctx context.Context) error {
	var err error
	if s.store != nil {
		err = s.store.stop(ctx)
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}
