package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// blocks returns the shell examples of a page, with the address of the stack instead of the
// one on the page.
func (s *stack) blocks(t *testing.T, page string) (scripts []string) {
	t.Helper()
	text, err := os.ReadFile("../docs/" + page)
	require.NoError(t, err)
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		scripts = append(scripts, strings.ReplaceAll(block[1], "http://127.0.0.1:8080", s.keys.Endpoint))
	}
	return scripts
}

// show returns a folder like the one in which a reader runs examples: with .reelay in it.
func (s *stack) show(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Symlink(s.data, filepath.Join(dir, ".reelay")))
	return dir
}

// shell runs a script in a folder, with reelay on the PATH, and returns what it
// printed.
func shell(t *testing.T, dir, script string) string {
	t.Helper()
	cmd := testrun.Command(t, "bash", "-c", "set -eu -o pipefail\n"+script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(reelay)+":"+os.Getenv("PATH"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // the processes that a failed script left behind
	require.NoError(t, err, string(out))
	return string(out)
}
