// Package freshfile reads files again when they change, so that secrets and certificates can be replaced
// without a restart.
package freshfile

import (
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// File is a value that is read from files: from one, or from several that belong together, such as a
// certificate and its key. It is safe for concurrent use.
type File[T any] struct {
	paths []string
	read  func() (T, error)

	mu    sync.Mutex
	value T
	// known are the files from which value was read, and wrong those that could not be read; both are nil
	// at first.
	known, wrong []os.FileInfo
	// settled is set if a change of the known files changes what os.Stat says of them.
	settled bool
}

// New returns the value that read returns of the files at paths. It reads nothing yet. A path may be empty,
// if there is no such file.
func New[T any](read func() (T, error), paths ...string) *File[T] {
	return &File[T]{paths: slices.DeleteFunc(slices.Clone(paths), func(path string) bool { return path == "" }), read: read}
}

// tick is longer than the smallest step of a file's time. Within it, two writes can leave the same time.
const tick = 2 * time.Second

// Get returns the value of the files as they are now. If they cannot be read, for example because they are
// half-written, it returns the former value. The error is nil once the files could be read.
func (f *File[T]) Get() (T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.look()
	if f.settled && same(now, f.known) {
		return f.value, nil
	}
	value, err := f.read()
	switch {
	case err != nil && f.known == nil:
		return value, err
	case err != nil:
		if !same(now, f.wrong) {
			slog.Warn("a file changed, but cannot be read: what it had before stays in use", "file", f.name(), "error", err)
		}
		f.wrong, f.settled = now, false
		return f.value, nil
	case f.known != nil && !same(now, f.known):
		slog.Info("a file changed and was read again", "file", f.name())
	}
	f.value, f.known, f.wrong = value, now, nil
	f.settled = !slices.ContainsFunc(now, func(info os.FileInfo) bool { return info != nil && time.Since(info.ModTime()) < tick })
	return f.value, nil
}

func (f *File[T]) name() string { return strings.Join(f.paths, ", ") }

// look returns what is known of the files, with nil for a missing one.
func (f *File[T]) look() []os.FileInfo {
	all := make([]os.FileInfo, len(f.paths))
	for i, path := range f.paths {
		if info, err := os.Stat(path); err == nil {
			all[i] = info
		}
	}
	return all
}

func same(one, other []os.FileInfo) bool {
	return slices.EqualFunc(one, other, func(a, b os.FileInfo) bool {
		if a == nil || b == nil {
			return a == b
		}
		return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
	})
}
