package production

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { testrun.Main(m.Run) }

// laptop is the machine that the page calls your computer.
const laptop = "your computer"

// addresses of the machines in the only network. world has what is not Reelay's.
var addresses = map[string]string{
	"world": "10.20.0.254", laptop: "10.20.0.200", "one": "10.20.0.1", "two": "10.20.0.2", "three": "10.20.0.3",
	"gpu-1": "10.20.0.11", "gpu-2": "10.20.0.12", "gpu-3": "10.20.0.13", "gpu-4": "10.20.0.14", "gpu-5": "10.20.0.15",
}

// step is a block of commands of the page.
type step struct {
	section string
	// on are the machines that run it. If inOrder, each waits for the one before.
	on      []string
	inOrder bool
	script  string
}

// readPage returns the commands of the page, in their order.
func readPage(t *testing.T) (steps []step) {
	t.Helper()
	text, err := os.ReadFile("../../docs/operators/production.md")
	require.NoError(t, err)

	parts := regexp.MustCompile("(?m)^## (.*)$|(?ms)^On ([^\n]*):\n\n```sh\n(.*?)^```$").FindAllStringSubmatch(string(text), -1)
	section := ""
	for _, part := range parts {
		if part[1] != "" {
			section = part[1]
			continue
		}
		names, inOrder := strings.ReplaceAll(part[2], ", then on ", ", "), strings.Contains(part[2], ", then on ")
		on := strings.Split(strings.ReplaceAll(names, " and ", ", "), ", ")
		steps = append(steps, step{section, on, inOrder, part[3]})
	}
	require.Equal(t, strings.Count(string(text), "```sh\n"), len(steps), "a block of commands has no line that says where to run it")
	return steps
}

// packages returns the Debian packages that the page installs from the archive of Debian.
func packages(steps []step) (names []string) {
	for _, s := range steps {
		for _, line := range regexp.MustCompile(`(?m)^apt-get install (.*)$`).FindAllStringSubmatch(s.script, -1) {
			for word := range strings.FieldsSeq(line[1]) {
				if !strings.HasPrefix(word, "-") && !strings.Contains(word, "/") && !strings.Contains(word, "::") {
					names = append(names, word)
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func TestCommands(t *testing.T) {
	t.Parallel()
	steps := readPage(t)

	require.Greater(t, len(steps), 20)
	require.Equal(t, []string{"caddy", "ffmpeg", "postgresql", "prometheus", "prometheus-alertmanager", "redis-server", "ssl-cert"},
		packages(steps))
	for _, s := range steps {
		for _, name := range s.on {
			require.Contains(t, addresses, name, s.section)
		}
		shell := testrun.Command(t, "bash", "-n")
		shell.Stdin = strings.NewReader(s.script)
		said, err := shell.CombinedOutput()
		require.NoError(t, err, "%s: %s", s.section, said)
	}
}
