package localstack

import (
	"errors"
	"net"
	"os"
	"path/filepath"
)

// Socket is a Unix socket that only this user reaches.
type Socket struct {
	net.Listener
	path, dir string
}

// ListenPrivate opens a socket in a folder of its own below dir, or below the
// system's folder for temporary files where dir is too long a path for one. The
// caller holds dir's lock: a socket of a process that was killed is replaced.
func ListenPrivate(dir string) (*Socket, error) {
	const name = "socket"
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	own := filepath.Join(dir, "run")
	if fitsSocket(own, name) {
		err = errors.Join(os.RemoveAll(own), os.Mkdir(own, 0o700))
	} else {
		own, err = os.MkdirTemp("", "reelay-")
	}
	if err != nil {
		return nil, err
	}
	path := filepath.Join(own, name)
	listener, err := net.Listen("unix", path)
	if err == nil {
		err = os.Chmod(path, 0o600)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(own))
	}
	return &Socket{Listener: listener, path: path, dir: own}, nil
}

// Path is where it can be dialled.
func (s *Socket) Path() string { return s.path }

// Close removes the socket and its folder.
func (s *Socket) Close() error {
	err := s.Listener.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil // whoever served it has closed it
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}
