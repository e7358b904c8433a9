package secretfile_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reelay/reelay/internal/secretfile"
	"github.com/stretchr/testify/require"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestLoad(t *testing.T) {
	// set sets the environment of a test, which these tests have in common.
	set := func(t *testing.T, file, value string) {
		t.Helper()
		t.Setenv("REDIS_URL_FILE", file)
		t.Setenv("REDIS_URL", value)
	}

	t.Run("SetsWhatTheFileContains", func(t *testing.T) {
		set(t, write(t, "redis://:p ss@redis:6379/0\r\n"), "")

		require.NoError(t, secretfile.Load())

		require.Equal(t, "redis://:p ss@redis:6379/0", os.Getenv("REDIS_URL"))
		_, named := os.LookupEnv("REDIS_URL_FILE")
		require.False(t, named, "a process that this one starts must not find both")
	})

	t.Run("FollowsTheFile", func(t *testing.T) {
		path := write(t, "first\n")
		set(t, path, "")
		require.NoError(t, secretfile.Load())
		require.Equal(t, "first", secretfile.Newest("REDIS_URL"))

		for _, half := range []string{"", "two\nlines\n"} {
			require.NoError(t, os.WriteFile(path, []byte(half), 0o600))
			require.Equal(t, "first", secretfile.Newest("REDIS_URL"))
		}
		require.NoError(t, os.WriteFile(path, []byte("second\n"), 0o600))

		require.Equal(t, "second", secretfile.Newest("REDIS_URL"))
		require.Subset(t, secretfile.Environment(), []string{"REDIS_URL=", "REDIS_URL_FILE=" + path})
		t.Setenv("REELAY_API_KEY", "of the environment")
		require.Equal(t, "of the environment", secretfile.Newest("REELAY_API_KEY"))
	})

	t.Run("LeavesWhatHasNoFile", func(t *testing.T) {
		set(t, "", "redis://redis:6379")

		require.NoError(t, secretfile.Load())

		require.Equal(t, "redis://redis:6379", os.Getenv("REDIS_URL"))
	})

	t.Run("RefusesBoth", func(t *testing.T) {
		set(t, write(t, "secret"), "secret")

		require.EqualError(t, secretfile.Load(), "REDIS_URL and REDIS_URL_FILE are both set: use one of them")
	})

	for name, c := range map[string]struct{ text, want string }{
		"AnEmptyFile":  {"\n", "it is empty"},
		"TwoLines":     {"secret\nsecret\n", "it has more than one line"},
		"ALargeFile":   {strings.Repeat("secret", 64<<10), "it has more than 65536 bytes"},
		"BinaryValues": {"secret\x00secret", "it has more than one line"},
	} {
		t.Run("Refuses"+name, func(t *testing.T) {
			path := write(t, c.text)
			set(t, path, "")

			err := secretfile.Load()

			require.EqualError(t, err, `REDIS_URL_FILE is "`+path+`": it must be a file with the value of REDIS_URL: `+c.want)
			require.Empty(t, os.Getenv("REDIS_URL"))
		})
	}

	t.Run("RefusesAFileThatIsMissing", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "none")
		set(t, path, "")

		require.EqualError(t, secretfile.Load(),
			`REDIS_URL_FILE is "`+path+`": it must be a file with the value of REDIS_URL: open `+path+`: no such file or directory`)
	})

	t.Run("SaysAllThatIsWrong", func(t *testing.T) {
		set(t, t.TempDir(), "")
		t.Setenv("DATABASE_URL", "")
		t.Setenv("DATABASE_URL_FILE", write(t, ""))

		err := secretfile.Load()

		require.ErrorContains(t, err, "DATABASE_URL: it is empty")
		require.ErrorContains(t, err, "is a directory")
	})
}
