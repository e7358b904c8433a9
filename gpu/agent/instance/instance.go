// Package instance finds an id for the machine of an agent that was given none.
package instance

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

// Machine is where the agent runs.
type Machine struct {
	// Host is the name of the host. In Kubernetes it is the name of the pod, or of the node if the
	// pod uses the network of its node.
	Host string
	// WorkDir is the agent's own folder. It exists.
	WorkDir string
	// Mounts and ID are the files that the Linux kernel and systemd describe the machine in. They
	// may be absent.
	Mounts, ID string
}

// This returns the machine of this process.
func This(workDir string) Machine {
	host, _ := os.Hostname() // Claim refuses an empty name
	return Machine{Host: host, WorkDir: workDir, Mounts: "/proc/self/mountinfo", ID: "/etc/machine-id"}
}

// Claim returns an id that no other machine, container or pod has: the host's name and 8 digits. An
// agent that is restarted gets the same id again, and so its own place. In a pod of Kubernetes the
// digits come from the pod and the container. Elsewhere they come from a random file in the work
// directory, and from the machine's id if it has one, since files are copied with disk images.
//
// No other agent can claim the same id until release is called or the process ends. Claim returns
// an error if another agent holds it.
func (m Machine) Claim() (id string, release func(), err error) {
	if m.Host == "" || strings.Contains(m.Host, "/") {
		return "", nil, fmt.Errorf("--instance-id is missing, and the host name %q cannot be part of one: give this agent an --instance-id",
			m.Host)
	}
	name, pod := m.Host, m.pod()
	if pod != "" {
		name += "-" + digits(pod) // pods can share a work directory
	}
	file, err := lock(filepath.Join(m.WorkDir, name+".id"))
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return "", nil, fmt.Errorf("another agent on this machine uses the id that --instance-id has by default: "+
			"run several workers in one agent with --workers, or give each agent an --instance-id of its own (%s)", m.WorkDir)
	}
	if err != nil {
		return "", nil, fmt.Errorf("find an --instance-id: %w", err)
	}
	if pod == "" {
		seed, err := seedOf(file)
		if err != nil {
			file.Close()
			return "", nil, fmt.Errorf("find an --instance-id: %w", err)
		}
		own, _ := os.ReadFile(m.ID)
		name += "-" + digits(seed+" "+strings.TrimSpace(string(own)))
	}
	return name, func() { file.Close() }, nil
}

// podMount finds the uid of a pod and the name of a container in the source of a file that kubelet mounts
// into each container.
var podMount = regexp.MustCompile(`/pods/([0-9a-fA-F-]{32,36})/containers/([a-z0-9.-]{1,63})/`)

// pod identifies the container and its pod, or is empty. It outlives restarts of the container.
func (m Machine) pod() string {
	mounts, _ := os.ReadFile(m.Mounts) // absent outside Linux
	found := podMount.FindSubmatch(mounts)
	if found == nil {
		return ""
	}
	return string(found[1]) + "/" + string(found[2])
}

func digits(of string) string {
	sum := sha256.Sum256([]byte("reelay-agent " + of))
	return hex.EncodeToString(sum[:4])
}

// lock opens a file, which another user cannot have replaced by a link, and locks it until it is closed.
func lock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

const seedBytes = 16

// seedOf returns the random text in a file. It writes one if the file is new or damaged.
func seedOf(file *os.File) (string, error) {
	text, err := io.ReadAll(io.LimitReader(file, 1<<10))
	if err != nil {
		return "", err
	}
	if seed, err := hex.DecodeString(strings.TrimSpace(string(text))); err == nil && len(seed) == seedBytes {
		return hex.EncodeToString(seed), nil
	}
	seed := make([]byte, seedBytes)
	rand.Read(seed)
	fresh := hex.EncodeToString(seed)
	if err := file.Truncate(0); err != nil {
		return "", err
	}
	_, err = file.WriteAt([]byte(fresh+"\n"), 0)
	return fresh, err
}
