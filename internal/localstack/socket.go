package localstack

import (
	"errors"
	"net"
	"os"
	"path/filepath"
)

// Socket is a Unix socket that only this user can reach.
type Socket struct {
	net.Listener
	path, dir string
}

// ListenPrivate opens a socket in a private folder below dir, or in the system's folder
// for temporary files if the path of dir is too long for a socket. The caller must hold
// the lock of dir; the socket of a killed process is replaced.
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

// Path returns the path to dial.
func (s *Socket) Path() string { return s.path }

// Close removes the socket and its folder.
func (s *Socket) Close() error {
	err := s.Listener.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil // its server has closed it
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}
