package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadNotes(t *testing.T) {
	t.Parallel()

	t.Run("ReturnsTheNewestVersionOnly", func(t *testing.T) {
		t.Parallel()

		version, date, notes, err := readNotes("# Changelog\n\n## [0.2.0] - 2027-01-02\n\n### Added\n\n- A kite.\n\n" +
			"## [0.1.0] - 2026-11-30\n\nThe first.\n")

		require.NoError(t, err)
		require.Equal(t, "0.2.0", version)
		require.Equal(t, "2027-01-02", date)
		require.Equal(t, "### Added\n\n- A kite.\n", notes)
	})

	t.Run("ReadsTheChangelogOfThisTree", func(t *testing.T) {
		t.Parallel()
		text, err := os.ReadFile("../../CHANGELOG.md")
		require.NoError(t, err)

		_, _, notes, err := readNotes(string(text))

		require.NoError(t, err)
		require.Contains(t, notes, "### Added")
	})

	t.Run("RefusesAChangelogWithoutVersions", func(t *testing.T) {
		t.Parallel()

		_, _, _, err := readNotes("# Changelog\n")

		require.EqualError(t, err, "CHANGELOG.md has no heading such as `## [0.1.0] - 2026-11-30`")
	})
}

// checkout is a git repository with one commit of a changelog.
func checkout(t *testing.T, date string) string {
	t.Helper()
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "CHANGELOG.md"), []byte("## [0.3.0] - "+date+"\n\nText.\n"), 0o644))
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"commit", "-q", "-m", "One"}} {
		gitIn(t, folder, args...)
	}
	return folder
}

func gitIn(t *testing.T, folder string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "GIT_COMMITTER_DATE=1795874678 +0000", "GIT_AUTHOR_DATE=1795874678 +0000", "GIT_CONFIG_GLOBAL=/dev/null")
	said, err := cmd.CombinedOutput()
	require.NoError(t, err, string(said))
}

func TestReadSource(t *testing.T) {
	t.Parallel()

	t.Run("IsAReleaseIfTheCommitHasTheTag", func(t *testing.T) {
		t.Parallel()
		folder := checkout(t, "2026-11-30")
		gitIn(t, folder, "tag", "v0.3.0")

		s, err := readSource(t.Context(), folder)

		require.NoError(t, err)
		require.Equal(t, "0.3.0", s.version)
		require.True(t, s.released)
		require.False(t, s.modified)
		require.Len(t, s.commit, 40)
		require.Equal(t, int64(1795874678), s.time.Unix())
		require.Equal(t, "Text.\n", s.notes)
	})

	t.Run("IsADevelopmentBuildWithoutTheTag", func(t *testing.T) {
		t.Parallel()
		folder := checkout(t, "Unreleased")
		require.NoError(t, os.WriteFile(filepath.Join(folder, "new"), nil, 0o644))

		s, err := readSource(t.Context(), folder)

		require.NoError(t, err)
		require.Equal(t, "0.3.0-dev", s.version)
		require.False(t, s.released)
		require.True(t, s.modified)
	})

	for name, c := range map[string]struct{ date, tag, file, want string }{
		"RefusesATagOfAnotherVersion": {"2026-11-30", "v0.2.0", "",
			"the commit has the tag v0.2.0, but the newest version in CHANGELOG.md is 0.3.0: correct one of them"},
		"RefusesATagWithoutADate": {"Unreleased", "v0.3.0", "",
			"the commit has the tag v0.3.0, but CHANGELOG.md says that 0.3.0 is unreleased: " +
				"write the date there, commit, and move the tag"},
		"RefusesATagWithModifiedFiles": {"2026-11-30", "v0.3.0", "new",
			"the commit has the tag v0.3.0, but files are modified or not committed: " +
				"commit or remove them (git status)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := checkout(t, c.date)
			gitIn(t, folder, "tag", c.tag)
			if c.file != "" {
				require.NoError(t, os.WriteFile(filepath.Join(folder, c.file), nil, 0o644))
			}

			_, err := readSource(t.Context(), folder)

			require.EqualError(t, err, c.want)
		})
	}
}

func TestCheckFree(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()

	require.NoError(t, checkFree(filepath.Join(folder, "none")))
	require.NoError(t, checkFree(folder))

	require.NoError(t, os.WriteFile(filepath.Join(folder, "thesis.tex"), nil, 0o644))
	require.EqualError(t, checkFree(folder),
		"-out is "+folder+", which has files but is no release (it has no SHA256SUMS): name an empty folder")

	require.NoError(t, os.WriteFile(filepath.Join(folder, sumsFile), nil, 0o644))
	require.NoError(t, checkFree(folder))
}

func TestChosen(t *testing.T) {
	t.Parallel()

	all, err := chosen("")
	require.NoError(t, err)
	require.Len(t, all, 4)
	one, err := chosen("darwin/arm64")
	require.NoError(t, err)
	require.Equal(t, []target{{"darwin", "arm64"}}, one)
	_, err = chosen("plan9/arm")
	require.EqualError(t, err, `-only names "plan9/arm": the targets are linux and darwin with amd64 and arm64, such as linux/amd64`)
}
