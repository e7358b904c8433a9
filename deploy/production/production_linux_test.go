package production

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// site is what the page sets up.
type site struct {
	t        *testing.T
	steps    []step
	machines map[string]*machine
	world    *world
	// env is what a reader has exported in the shell of the laptop.
	env string
}

// newSite boots the machines, and puts a release onto the laptop.
func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, steps: readPage(t), machines: map[string]*machine{}}
	allowWatches(t)
	d := newDebian(t, packages(s.steps))
	n := newNetwork(t)
	s.world = newWorld(t, n)
	s.env = fmt.Sprintf("S3_ACCESS_KEY=%s S3_SECRET_KEY=%s OIDC_CLIENT_SECRET=%s\n",
		s.world.accessKey, s.world.secretKey, s.world.oidc.ClientSecret)

	keys := t.TempDir()
	run(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "admin", "-f", filepath.Join(keys, "key"))
	private, err := os.ReadFile(filepath.Join(keys, "key"))
	require.NoError(t, err)
	authority, err := os.ReadFile(s.world.authority)
	require.NoError(t, err)
	config := "StrictHostKeyChecking accept-new\nLogLevel ERROR\n"
	for name, address := range addresses {
		if name == "world" {
			continue
		}
		m := newMachine(t, d, n, name, keys)
		m.write("usr/local/share/ca-certificates/world.crt", string(authority), 0o644)
		s.machines[name] = m
		if name != laptop {
			config += "Host " + name + "\n\tHostName " + address + "\n\tUser root\n"
		}
	}
	computer := s.machines[laptop]
	computer.write("root/.ssh/config", config, 0o600)
	computer.write("root/.ssh/id_ed25519", string(private), 0o600)
	downloads := filepath.Join(computer.root, "root/reelay-production")
	require.NoError(t, os.CopyFS(downloads, os.DirFS("../../dist")))
	sign(t, downloads, keys)

	for _, m := range s.machines {
		m.boot()
	}
	s.must(s.on(everyone(), "update-ca-certificates"))
	return s
}

// allowWatches lets nine copies of systemd watch files: together they need more than the usual limit.
func allowWatches(t *testing.T) {
	t.Helper()
	const limit = "/proc/sys/fs/inotify/max_user_instances"
	before, err := os.ReadFile(limit)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(limit, []byte("4096"), 0o644))
	t.Cleanup(func() { require.NoError(t, os.WriteFile(limit, before, 0o644)) })
}

// sign signs a release, as those who publish it do.
func sign(t *testing.T, folder, keys string) {
	t.Helper()
	require.NoError(t, os.RemoveAll(filepath.Join(folder, "SHA256SUMS.sig")))
	run(t, "ssh-keygen", "-q", "-Y", "sign", "-f", filepath.Join(keys, "key"), "-n", "file", filepath.Join(folder, "SHA256SUMS"))
	public, err := os.ReadFile(filepath.Join(keys, "key.pub"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "allowed_signers"), append([]byte("releases@reelay "), public...), 0o644))
}

func everyone() (all []string) {
	for name := range addresses {
		if name != "world" {
			all = append(all, name)
		}
	}
	return all
}

// on runs commands on machines at once.
func (s *site) on(names []string, script string) (said string, err error) {
	var all errgroup.Group
	var mu sync.Mutex
	for _, name := range names {
		all.Go(func() error {
			text, err := s.machines[name].try(script)
			mu.Lock()
			defer mu.Unlock()
			said += text
			return err
		})
	}
	err = all.Wait()
	return said, err
}

func (s *site) must(said string, err error) string {
	s.t.Helper()
	require.NoError(s.t, err)
	return said
}

// do runs a section of the page.
func (s *site) do(section string) (said string) {
	s.t.Helper()
	for _, step := range s.steps {
		if step.section != section {
			continue
		}
		s.t.Logf("%s: on %s", section, strings.Join(step.on, ", "))
		script := step.script
		if step.on[0] == laptop {
			script = s.env + script
		}
		if !step.inOrder {
			said += s.must(s.on(step.on, script))
			continue
		}
		for _, name := range step.on {
			said += s.must(s.on([]string{name}, script))
		}
	}
	return said
}

// script returns the first commands of a section that contain a text.
func (s *site) script(section, contains string) string {
	s.t.Helper()
	for _, step := range s.steps {
		if step.section == section && strings.Contains(step.script, contains) {
			return step.script
		}
	}
	s.t.Fatalf("%s: no commands contain %s", section, contains)
	return ""
}

// cli are settings of the program on the laptop.
const cli = "cd ~/reelay-production\nexport REELAY_ENDPOINT=https://reelay.example.com REELAY_API_KEY=\"$(cat admin_key)\"\n"

// submit submits jobs and returns their ids.
func (s *site) submit(n int) []string {
	s.t.Helper()
	said := s.machines[laptop].run(cli + fmt.Sprintf(`for i in $(seq %d); do ./reelay submit --prompt "a lighthouse, $i"; done`, n))
	ids := strings.Fields(said)
	require.Len(s.t, ids, n, said)
	return ids
}

// end waits until jobs have completed.
func (s *site) end(ids []string) {
	s.t.Helper()
	for _, id := range ids {
		testrun.Eventually(s.t, "job "+id+" completes", func() bool {
			said, err := s.machines[laptop].try(cli + "./reelay get " + id + " --jq .status")
			return err == nil && strings.TrimSpace(said) == "COMPLETED"
		})
	}
}

// doctor runs its checks on a machine, of which none may be broken.
func (s *site) doctor(name string) {
	s.t.Helper()
	said := s.machines[name].run("set -a && . /etc/reelay/reelay.env\nrunuser -u reelay -- reelay doctor --full")
	s.t.Log("doctor: " + said)
	require.Regexp(s.t, `\d+ checks: \d+ ok`, said)
}

// TestPage follows docs/operators/production.md from top to bottom, and then pulls plugs.
func TestPage(t *testing.T) {
	if os.Getenv("REELAY_TEST_PRODUCTION") == "" {
		t.Skip("it needs root, debootstrap, systemd-nspawn and a release in dist: run `go tool task test:production`")
	}
	s := newSite(t)

	s.do("Settings and certificates")
	s.do("The machines")
	said := s.do("PostgreSQL")
	require.Len(t, regexp.MustCompile(`(two|three) +\| streaming +\| quorum`).FindAllString(said, -1), 2, said)
	s.do("Redis")
	s.do("api and control")
	s.do("The proxy and its certificate")
	s.do("Keys, people and a pool")
	for email, group := range map[string]string{"ana@example.com": "video-admins", "ben@example.com": "staff"} {
		require.Contains(t, s.world.logIn(email, group), email)
	}
	said = s.do("The machines with GPUs")
	require.Len(t, regexp.MustCompile(`(?m)gpu-\d`).FindAllString(said, -1), 5, said)
	require.Equal(t, "ftyp", s.machines[laptop].run("head -c 8 ~/reelay-production/first.mp4 | tail -c 4"))
	s.do("Alerts")
	testrun.Eventually(t, "the test of the receiver arrives", s.world.called("/reelay", "alert.test"))
	testrun.Eventually(t, "Prometheus reaches all processes", func() bool {
		up, down := targets(t, s.machines["three"].run("curl -fsS 'http://localhost:9090/api/v1/query?query=up'"))
		return len(up) == 4 && len(down) == 0
	})
	require.Contains(t, s.do("Backups"), "backup.json")
	require.Regexp(t, `\d+ checks: \d+ ok`, s.do("Look at it"))
	s.doctor("three")

	s.upgrade()
	s.do("Renew the certificates")
	s.doctor("three")
	for _, name := range []string{"gpu-1", "three", "two"} {
		s.lose(name)
	}
	s.losePrimary()
}
