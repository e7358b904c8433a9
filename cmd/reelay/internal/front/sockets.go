package front

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Listen opens the address that the API is served on. fd:N is a listening socket that
// this process inherited as descriptor N.
func Listen(address string) (net.Listener, error) {
	if fd, ok := inherited(address); ok {
		file := os.NewFile(fd, address)
		defer file.Close()
		listener, err := net.FileListener(file)
		if err != nil {
			return nil, fmt.Errorf("cannot listen on %s: this process was started without a listening socket there: %w", address, err)
		}
		return listener, nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf(
			"cannot listen on %s: %w; choose another address with --listen, or a free port with --listen 127.0.0.1:0; "+
				"with task: go tool task up -- --listen …",
			address, errors.Unwrap(err),
		)
	}
	return listener, nil
}

// inherited parses fd:N.
func inherited(address string) (uintptr, bool) {
	number, ok := strings.CutPrefix(address, "fd:")
	fd, err := strconv.Atoi(number)
	return uintptr(fd), ok && err == nil && fd >= 3 && fd < 1<<16
}

// Inheritable returns the listener's socket for child processes. The File method of net
// would make the socket blocking for all processes that have it open.
func Inheritable(listener net.Listener) (*os.File, error) {
	conn, err := listener.(syscall.Conn).SyscallConn()
	if err != nil {
		return nil, err
	}
	var file *os.File
	failed := conn.Control(func(fd uintptr) {
		syscall.ForkLock.RLock()
		defer syscall.ForkLock.RUnlock()
		var copied int
		if copied, err = syscall.Dup(int(fd)); err == nil {
			syscall.CloseOnExec(copied)
			file = os.NewFile(uintptr(copied), "listener")
		}
	})
	return file, errors.Join(failed, err)
}

// ValidListen reports whether Listen can read the address.
func ValidListen(address string) bool {
	if _, ok := inherited(address); ok {
		return true
	}
	host, port, err := net.SplitHostPort(address)
	return err == nil && !strings.ContainsAny(host, "/ ") && ValidPort(port)
}
