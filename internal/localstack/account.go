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

// account is who a server runs as when we are root, which PostgreSQL refuses to
// run as and Redis need not. A nil account is whoever we are.
type account struct {
	userNamespace bool // in a namespace of its own, where root's files are an ordinary user's
	uid, gid      int
}

// unprivileged finds an account for a program that root starts: a user
// namespace where the kernel allows one, since its files stay ours, else the
// first of the named users that exists. It returns nil if we are not root.
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

// own gives the account dir and everything below. It returns an error that says
// what to do if the account cannot get there.
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
