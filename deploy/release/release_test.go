package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const root = "../.."

// copyTree copies the sources of this tree.
func copyTree(t *testing.T) string {
	t.Helper()
	into := t.TempDir()
	files, err := output(t.Context(), root, nil, "git", "ls-files", "-z", "-co", "--exclude-standard")
	require.NoError(t, err)
	for name := range strings.SplitSeq(strings.TrimSuffix(string(files), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // it is deleted, but not committed
		}
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(into, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(into, name), text, 0o644))
	}
	return into
}

// TestCompile builds the small program only; `go tool task release:check` compares a whole release.
func TestCompile(t *testing.T) {
	t.Parallel()
	here, agent := target{runtime.GOOS, runtime.GOARCH}, programs[1]
	build := func(folder string, released bool) string {
		r := &release{source: source{root: folder, commit: "1f2e3d4c5b6a79880123456789abcdef01234567", released: released}}
		into := filepath.Join(t.TempDir(), agent.name)
		require.NoError(t, r.compile(t.Context(), here, agent, into))
		return into
	}
	elsewhere := copyTree(t)

	first, second, released := build(root, false), build(elsewhere, false), build(root, true)

	t.Run("GivesTheSameBytesInAnotherFolder", func(t *testing.T) {
		t.Parallel()

		a, err := os.ReadFile(first)
		require.NoError(t, err)
		b, err := os.ReadFile(second)
		require.NoError(t, err)
		require.True(t, bytes.Equal(a, b), "two builds of the same sources differ")
	})

	t.Run("StampsTheVersion", func(t *testing.T) {
		t.Parallel()

		for program, want := range map[string]string{first: "-dev+1f2e3d4c5b6a ", released: "+1f2e3d4c5b6a "} {
			said, err := exec.CommandContext(t.Context(), program, "version").Output()
			require.NoError(t, err)
			require.Regexp(t, `^reelay-agent \d+\.\d+\.\d+`+strings.ReplaceAll(want, "+", `\+`), string(said))
		}
	})
}

func TestCheckAssets(t *testing.T) {
	t.Parallel()

	err := (&release{source: source{root: t.TempDir()}}).checkAssets(t.Context())

	require.ErrorContains(t, err, "web/console/static/vendor/htmx.js: run `go tool task assets` where the npm registry can be reached")
}

func TestDebianChangelog(t *testing.T) {
	t.Parallel()

	r := &release{source: source{version: "0.1.0-dev", time: time.Unix(1795874678, 0).UTC()}}

	require.Equal(t, "reelay (0.1.0~dev) stable; urgency=medium\n\n  * Version 0.1.0-dev: see CHANGELOG.md of Reelay.\n\n"+
		" -- The Reelay authors <reelay@users.noreply.github.com>  Sat, 28 Nov 2026 14:04:38 +0000\n", r.debianChangelog("reelay"))
}

// tagged clones the commit of this tree as a release: with a date in CHANGELOG.md, a tag, and the
// console's libraries, which task assets fetched. It returns the version.
func tagged(t *testing.T) (folder, version string) {
	t.Helper()
	from, err := filepath.Abs(root)
	require.NoError(t, err)
	into := filepath.Join(t.TempDir(), "reelay")
	_, err = output(t.Context(), from, nil, "git", "clone", "-q", from, into)
	require.NoError(t, err)
	const vendor = "web/console/static/vendor"
	for _, name := range assets {
		text, err := os.ReadFile(filepath.Join(from, vendor, name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(into, vendor, name), text, 0o644))
	}
	const modules = "node_modules"
	require.NoError(t, os.CopyFS(filepath.Join(into, modules), os.DirFS(filepath.Join(from, modules))))
	changelog, err := os.ReadFile(filepath.Join(into, "CHANGELOG.md"))
	require.NoError(t, err)
	version, _, _, err = readNotes(string(changelog))
	require.NoError(t, err)
	dated := strings.Replace(string(changelog), "] - Unreleased\n", "] - 2026-11-30\n", 1)
	require.NoError(t, os.WriteFile(filepath.Join(into, "CHANGELOG.md"), []byte(dated), 0o644))
	gitIn(t, into, "commit", "-q", "--allow-empty", "-a", "-m", "Release "+version)
	gitIn(t, into, "tag", "v"+version)
	return into, version
}

// TestRelease builds a signed release of the commit for this machine twice. It takes a quarter of
// an hour: the second build has no cache.
func TestRelease(t *testing.T) {
	if os.Getenv("REELAY_TEST_RELEASE") == "" {
		t.Skip("REELAY_TEST_RELEASE is not set")
	}
	key := filepath.Join(t.TempDir(), "key")
	_, err := output(t.Context(), "", nil, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
	require.NoError(t, err)
	here, version := tagged(t)
	elsewhere, _ := tagged(t)
	build := func(from string) string {
		out := filepath.Join(t.TempDir(), "dist")
		require.NoError(t, run(t.Context(), from, out, key, "linux/"+runtime.GOARCH))
		return out
	}

	first := build(here)
	for _, command := range []string{
		"sha256sum -c SHA256SUMS", "ssh-keygen -Y check-novalidate -n file -s SHA256SUMS.sig <SHA256SUMS",
		"tar xzf reelay_" + version + "_linux_" + runtime.GOARCH + ".tar.gz --strip-components=1",
		"./reelay version | grep -q '^reelay " + version + "+'",
	} {
		said, err := output(t.Context(), first, nil, "sh", "-c", command)
		require.NoError(t, err, string(said))
	}
	t.Setenv("GOCACHE", t.TempDir())
	second := build(elsewhere)

	sums, err := os.ReadFile(filepath.Join(first, sumsFile))
	require.NoError(t, err)
	again, err := os.ReadFile(filepath.Join(second, sumsFile))
	require.NoError(t, err)
	require.Equal(t, string(sums), string(again), "two builds of the same commit differ")

	if lintian, err := exec.LookPath("lintian"); err == nil {
		debs, err := filepath.Glob(filepath.Join(first, "*.deb"))
		require.NoError(t, err)
		require.Len(t, debs, 2)
		// Go links statically; settings are not for everyone; the units are stopped by systemctl, if it runs.
		said, err := exec.Command(lintian, append([]string{"--allow-root", "--fail-on", "error,warning", "--suppress-tags",
			"statically-linked-binary,non-standard-file-perm,maintainer-script-calls-systemctl"}, debs...)...).CombinedOutput()
		require.NoError(t, err, string(said))
	}
}
