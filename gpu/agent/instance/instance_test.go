package instance_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reelay/reelay/gpu/agent/instance"
	"github.com/stretchr/testify/require"
)

// TestMain lets this binary be another agent: it claims an id and holds it until its input ends.
func TestMain(m *testing.M) {
	if dir := os.Getenv("CLAIM_IN"); dir != "" {
		machine := instance.This(dir)
		machine.Host = "vm"
		if _, _, err := machine.Claim(); err != nil {
			os.Exit(3)
		}
		os.Stdout.WriteString("claimed\n")
		os.Stdin.Read(make([]byte, 1))
		return
	}
	os.Exit(m.Run())
}

// machine returns a machine with the host name vm and a file for its mounts and its id.
func machine(t *testing.T, mounts, id string) instance.Machine {
	t.Helper()
	dir := t.TempDir()
	m := instance.Machine{Host: "vm", WorkDir: t.TempDir(), Mounts: filepath.Join(dir, "mountinfo"), ID: filepath.Join(dir, "machine-id")}
	require.NoError(t, os.WriteFile(m.Mounts, []byte(mounts), 0o600))
	if id != "" {
		require.NoError(t, os.WriteFile(m.ID, []byte(id), 0o600))
	}
	return m
}

// claim claims an id and releases it, as the end of an agent does.
func claim(t *testing.T, m instance.Machine) string {
	t.Helper()
	id, release, err := m.Claim()
	require.NoError(t, err)
	release()
	return id
}

// mountsOf returns what a container of a pod sees.
func mountsOf(uid, container string) string {
	return `1022 1021 0:96 / /proc rw,nosuid - proc proc rw
1040 1018 8:1 /var/lib/kubelet/pods/` + uid + `/etc-hosts /etc/hosts rw,relatime - ext4 /dev/sda1 rw
1041 1018 8:1 /var/lib/kubelet/pods/` + uid + `/containers/` + container + `/8d1cbb34 /dev/termination-log rw,relatime - ext4 /dev/sda1 rw
`
}

const uid = "1b2c4d5e-1111-4a2b-9c3d-0123456789ab"

func TestClaim(t *testing.T) {
	t.Parallel()

	t.Run("FindsTheSameIDAgain", func(t *testing.T) {
		t.Parallel()
		m := machine(t, "", "3d1219c7\n")

		first := claim(t, m)

		require.Regexp(t, `^vm-[0-9a-f]{8}$`, first)
		require.Equal(t, first, claim(t, m))
	})

	t.Run("DiffersBetweenMachinesOfOneName", func(t *testing.T) {
		t.Parallel()
		seen := map[string]bool{}
		for range 20 {
			seen[claim(t, machine(t, "", ""))] = true
		}
		require.Len(t, seen, 20)
	})

	t.Run("DiffersOnACopyOfTheDisk", func(t *testing.T) {
		t.Parallel()
		m := machine(t, "", "3d1219c7\n")
		first := claim(t, m)
		copied := machine(t, "", "another\n")
		copied.WorkDir = m.WorkDir

		require.NotEqual(t, first, claim(t, copied))
	})

	t.Run("IsThatOfThePod", func(t *testing.T) {
		t.Parallel()
		m := machine(t, mountsOf(uid, "agent"), "")
		restarted := machine(t, mountsOf(uid, "agent"), "") // with a new file system
		beside := machine(t, mountsOf(uid, "second"), "")
		otherPod := machine(t, mountsOf(strings.Replace(uid, "1b", "2b", 1), "agent"), "")
		otherPod.WorkDir = m.WorkDir // a folder of the node

		first, release, err := m.Claim()
		require.NoError(t, err)
		defer release()

		require.Regexp(t, `^vm-[0-9a-f]{8}$`, first)
		require.Equal(t, first, claim(t, restarted))
		require.NotEqual(t, first, claim(t, beside))
		require.NotEqual(t, first, claim(t, otherPod))
	})

	t.Run("RefusesASecondAgent", func(t *testing.T) {
		t.Parallel()
		for _, mounts := range []string{"", mountsOf(uid, "agent")} {
			m := machine(t, mounts, "")
			first, release, err := m.Claim()
			require.NoError(t, err)

			_, _, err = m.Claim()

			require.ErrorContains(t, err, "another agent on this machine uses the id that --instance-id has by default: run several workers")
			release()
			require.Equal(t, first, claim(t, m))
		}
	})

	t.Run("IsFreeAfterAKill", func(t *testing.T) {
		t.Parallel()
		m := machine(t, "", "")
		self, err := os.Executable()
		require.NoError(t, err)
		other := exec.CommandContext(t.Context(), self)
		other.Env = append(os.Environ(), "CLAIM_IN="+m.WorkDir)
		input, err := other.StdinPipe()
		require.NoError(t, err)
		defer input.Close()
		output, err := other.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, other.Start())
		_, err = output.Read(make([]byte, 1))
		require.NoError(t, err)

		_, _, held := m.Claim()
		require.NoError(t, other.Process.Kill())
		require.Error(t, other.Wait())

		require.ErrorContains(t, held, "another agent")
		claim(t, m)
	})

	t.Run("RepairsADamagedFile", func(t *testing.T) {
		t.Parallel()
		for _, text := range []string{"", "\x00", "3d12", "../../x", strings.Repeat("a", 1<<20)} {
			m := machine(t, "", "")
			require.NoError(t, os.WriteFile(filepath.Join(m.WorkDir, "vm.id"), []byte(text), 0o600))

			id := claim(t, m)

			require.Regexp(t, `^vm-[0-9a-f]{8}$`, id)
			require.Equal(t, id, claim(t, m))
		}
	})

	t.Run("FollowsNoLink", func(t *testing.T) {
		t.Parallel()
		m := machine(t, "", "")
		target := filepath.Join(t.TempDir(), "target")
		require.NoError(t, os.WriteFile(target, []byte("mine"), 0o600))
		require.NoError(t, os.Symlink(target, filepath.Join(m.WorkDir, "vm.id")))

		_, _, err := m.Claim()

		require.ErrorContains(t, err, "find an --instance-id: ")
		kept, err := os.ReadFile(target)
		require.NoError(t, err)
		require.Equal(t, "mine", string(kept))
	})

	t.Run("RefusesAHostWithoutAName", func(t *testing.T) {
		t.Parallel()
		for _, host := range []string{"", "a/b", "/", "../x"} {
			m := machine(t, "", "")
			m.Host = host
			_, _, err := m.Claim()
			require.ErrorContains(t, err, "give this agent an --instance-id", host)
		}
	})
}
