package production

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// upgrade follows the page with a package of a higher version. No call of the laptop may fail meanwhile.
func (s *site) upgrade() {
	t := s.t
	t.Helper()
	again := repack(t, "../../dist/reelay_*_"+architecture(t)+".deb")
	for _, name := range []string{"one", "two"} {
		text, err := os.ReadFile(again)
		require.NoError(t, err)
		s.machines[name].write("root/new.deb", string(text), 0o644)
	}
	calls := s.machines[laptop].shell(cli + `good=0
touch calling
while [ -e calling ]; do
	if said=$(./reelay list --first 1 --json 2>&1); then good=$((good + 1)); else echo "failed: $(date +%T.%N) $said"; fi
done
echo "$good good"`)
	var said strings.Builder
	calls.Stdout, calls.Stderr = &said, &said
	require.NoError(t, calls.Start())

	s.do("Upgrade")
	s.machines[laptop].run("rm ~/reelay-production/calling")
	err := calls.Wait()
	require.NoError(t, err, said.String())

	if strings.Contains(said.String(), "failed") {
		for _, name := range []string{"one", "two"} {
			t.Logf("%s: %s", name, s.machines[name].run("journalctl --no-pager --output=short-precise --unit=reelay-api --unit=caddy --lines=60"))
		}
	}
	require.NotContains(t, said.String(), "failed")
	require.Regexp(t, `\d{2,} good`, said.String())
	require.Contains(t, s.machines["two"].run("dpkg-query --show reelay"), "+again")
}

// repack returns a copy of a package with a higher version.
func repack(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.Len(t, found, 1, pattern)
	folder := filepath.Join(t.TempDir(), "package")
	run(t, "dpkg-deb", "--raw-extract", found[0], folder)
	run(t, "sed", "-i", "s/^Version: .*/&+again/", filepath.Join(folder, "DEBIAN/control"))
	run(t, "dpkg-deb", "-Znone", "--build", folder, folder+".deb")
	return folder + ".deb"
}

func architecture(t *testing.T) string {
	t.Helper()
	said, err := exec.CommandContext(t.Context(), "dpkg", "--print-architecture").Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(said))
}

// lose pulls the plug of a machine while jobs run, and switches it on again after their end.
func (s *site) lose(name string) {
	s.t.Helper()
	ids := s.submit(8)
	s.machines[name].pullPlug()
	ids = append(ids, s.submit(2)...)
	s.end(ids)
	s.machines[name].boot()
	s.t.Logf("%s was lost, and %d jobs completed", name, len(ids))
}

// losePrimary pulls the plug of the machine with the primary, and does what the page says.
func (s *site) losePrimary() {
	t := s.t
	t.Helper()
	testrun.Eventually(t, "both standbys are back", func() bool { return s.standbys("one") == 2 })
	ids := s.submit(8)
	s.machines["one"].pullPlug()

	// Which of the standbys is ahead, the page says; its commands are for two.
	ahead := s.script("When a machine is lost", "pg_wal_lsn_diff")
	far := map[string]int{}
	for _, name := range []string{"two", "three"} {
		var err error
		far[name], err = strconv.Atoi(strings.TrimSpace(s.machines[name].run("cd /\n" + ahead)))
		require.NoError(t, err)
	}
	primary, standby := "two", "three"
	if far["three"] > far["two"] {
		primary, standby = "three", "two"
	}
	swap := strings.NewReplacer("two", primary, "three", standby, "(one, two, three)", "(one, two, three)")
	for _, step := range s.steps {
		if step.section == "When a machine is lost" && step.script != ahead {
			name := swap.Replace(step.on[0])
			t.Logf("on %s: %s", name, s.machines[name].run(swap.Replace(step.script)))
		}
	}
	ids = append(ids, s.submit(2)...)
	s.end(ids)
	t.Logf("one was lost, and %d jobs completed", len(ids))

	// The old primary comes back.
	s.machines["one"].boot()
	testrun.Eventually(t, "PostgreSQL refuses to be a second primary", func() bool {
		said := s.machines["one"].run("journalctl --no-pager --boot --unit 'postgresql@*'")
		return strings.Contains(said, primary+" has newer data: make this machine a standby")
	})
	require.Equal(t, "failed\n", s.machines["one"].run("systemctl is-active 'postgresql@*.service' || true"))
	clone := s.script("PostgreSQL", "primary=one")
	s.machines["one"].run(strings.Replace(clone, "primary=one", "primary="+primary, 1))
	testrun.Eventually(t, "both standbys stream", func() bool { return s.standbys(primary) == 2 })
	s.end(s.submit(2))
	s.doctor("two")
}

// standbys returns how many stream from a primary.
func (s *site) standbys(primary string) int {
	said := s.machines[primary].run(`cd /
runuser -u postgres -- psql -Atc "SELECT application_name FROM pg_stat_replication WHERE state = 'streaming'"`)
	return len(strings.Fields(said))
}
