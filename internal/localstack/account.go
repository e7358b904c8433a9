package localstack

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is the user that a server runs as if this process is root: PostgreSQL refuses
// to run as root, and Redis does not need to. A nil account is this process's user.
type account struct {
	userNamespace bool // in its own namespace, where root's files belong to an ordinary user
	uid, gid      int
}

// unprivileged returns an account for a program that root starts. It prefers a user
// namespace, because files then stay root's, and otherwise uses the first of the named
// users that exists. It returns nil if this process is not root.
func unprivileged(program string, names ...string) (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	if userNamespacesWork(program) {
		return &account{userNamespace: true}, nil
	}
	for _, name := range append(names, "nobody") {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.Atoi(found.Uid)
		gid, errGID := strconv.Atoi(found.Gid)
		if errUID == nil && errGID == nil {
			return &account{uid: uid, gid: gid}, nil
		}
	}
	return nil, fmt.Errorf("%s must not run as root, and this machine has neither user namespaces nor any of the users %v: start Reelay as an ordinary user", program, names)
}

func (a *account) apply(attr *syscall.SysProcAttr) {
	switch {
	case a == nil:
	case a.userNamespace:
		enterUserNamespace(attr)
	default:
		attr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
}

// own makes the account the owner of dir and everything below. If the account cannot
// reach dir, the error says what to do.
func (a *account) own(dir string) error {
	if a == nil || a.userNamespace {
		return nil
	}
	for above := filepath.Dir(dir); above != "/"; above = filepath.Dir(above) {
		info, err := os.Stat(above)
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o001 == 0 {
			return fmt.Errorf("%s is closed to the user with id %d, which runs the server since we are root: choose a data directory elsewhere, or start Reelay as an ordinary user", above, a.uid)
		}
	}
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, a.uid, a.gid)
	})
}
