package localstack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// DirLock is this process's exclusive right to a data directory.
type DirLock struct{ file *os.File }

// LockDir creates dir if necessary and locks it for this process until Release or the end
// of the process. If another process holds the lock, the error names it. If dir cannot be
// written, the error says what to do.
func LockDir(dir string) (*DirLock, error) {
	// If root starts a server, it runs as another user, which must be able to enter dir. Other
	// users cannot list dir. The files in it have their own modes.
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return nil, unusable(dir, err)
	}
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, unusable(dir, err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		defer file.Close()
		return nil, fmt.Errorf("the data directory %s is in use by process %s: stop that one first, or choose another directory", dir,
			ownerPID(file))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock the data directory %s: %w", dir, err), file.Close())
	}
	if err := writeOwnerPID(file); err != nil {
		return nil, errors.Join(unusable(dir, err), file.Close())
	}
	return &DirLock{file}, nil
}

// Release unlocks the directory. Closing the file is not enough: a child that is being
// started may briefly hold a copy of it.
func (l *DirLock) Release() error {
	return errors.Join(syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN), l.file.Close())
}

// takeDir locks the directory of one server and closes it to other users, even if it
// existed before. It returns the absolute path, which a server with its own working
// directory needs.
func takeDir(dir string) (string, *DirLock, error) {
	if dir == "" {
		return "", nil, errors.New("a server needs a data directory")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", nil, err
	}
	lock, err := LockDir(dir)
	if err != nil {
		return "", nil, err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return "", nil, errors.Join(unusable(dir, err), lock.Release())
	}
	return dir, lock, nil
}

func unusable(dir string, err error) error {
	return fmt.Errorf("the data directory %s cannot be used: %w. Give this user the right to write there, or choose another directory", dir,
		err)
}

func writeOwnerPID(file *os.File) error {
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err := file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// ownerPID returns the process id in the lock file. A process that has just taken the lock
// writes it a moment later.
func ownerPID(file *os.File) string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	pid := make([]byte, 20)
	for {
		if n, _ := file.ReadAt(pid, 0); n > 0 {
			return string(bytes.TrimSpace(pid[:n]))
		}
		if pause(ctx) != nil {
			return "(unknown)"
		}
	}
}

// maxSocketPath is the longest path of a Unix socket that all supported systems allow:
// Linux allows 107 bytes, macOS 103.
const maxSocketPath = 103

// fitsSocket reports whether the system and the syntax of a DSN allow a socket
// called name in dir.
func fitsSocket(dir, name string) bool {
	return len(filepath.Join(dir, name)) <= maxSocketPath && !strings.ContainsAny(dir, `,"'\`)
}

// syncDir syncs dir, so that the names in it survive a power failure.
func syncDir(dir string) error {
	file, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer file.Close()
	return file.Sync()
}
