package e2e

import (
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// figures are the constants that the architecture page states, with the words in which it does.
var figures = []struct{ words, dir, constant string }{
	{"waits for up to 25 s in `lease.Leaser`", "jobs/lease", "MaxLeaseWait = 25 * time.Second"},
	{"a lease of 30 s", "jobs/lease", "LeaseTTL = 30 * time.Second"},
	{"sends a heartbeat every 10 s", "jobs/lease", "HeartbeatEvery = 10 * time.Second"},
	{"loop every 10 s", "jobs/lease", "HeartbeatEvery = 10 * time.Second"},
	{"looks for expired leases every 2 s", "cmd/reelay/internal/servers", "reapEvery = 2 * time.Second"},
	{"(1 start in 10)", "models", "PromotedEvery = 10"},
	{"one start in ten", "models", "PromotedEvery = 10"},
	{"the first eight jobs of a queue", "jobs/fairqueue", "Window = 8"},
	{"at most 300 virtual seconds apart", "jobs/fairqueue", "WindowTime = 300"},
	{"as the directive CHECKPOINT for two minutes", "jobs/lease", "YieldWithin = 2 * time.Minute"},
	{"a look every 5 s finds the event", "features/watch", "lookEvery = 5 * time.Second"},
	{"simulates the queues about once a second", "jobs/estimate", "RefreshEvery = time.Second"},
	{"more than a sixtieth of its time", "jobs/estimate", "refreshShare = 60"},
	{"result is used for 20 s at most", "jobs/estimate", "staleAfter = 20 * time.Second"},
	{"passes over up to 20 jobs of an account", "jobs/estimate", "standbySample = 20"},
	{"the first 20 jobs of an account are read", "jobs/estimate", "standbySample = 20"},
	{"first 500 accounts of a queue", "jobs/estimate", "standbyAccounts = 500"},
	{"a moving average over 5 minutes", "jobs/estimate", "ArrivalSpan = 5 * time.Minute"},
	{"ends after 1,000 starts", "jobs/estimate", "Starts = 1000"},
	{"changes at most 100 jobs that wait for it", "jobs/change", "settleMost = 100"},
	{"in parts of 50", "jobs/operate", "cancelMost = 50"},
	{"is tried up to four times", "jobs", "txTries = 4"},
	{"It looks once a second in any case", "jobs/change", "DueEvery = time.Second"},
	{"500 in each transaction", "jobs/pass", "dueBatch = 500"},
	{"from PostgreSQL every 5 s", "cmd/reelay/internal/servers", "sweepEvery = 5 * time.Second"},
	{"waits up to 20 ms", "jobs/lease", "beatLinger = 20 * time.Millisecond"},
	{"until 16 calls have come", "jobs/lease", "beatsEnough = 16"},
}

func TestArchitecture(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../docs/developers/architecture.md")
	require.NoError(t, err)
	page := string(raw)

	t.Run("StatesTheFiguresOfTheCode", func(t *testing.T) {
		t.Parallel()

		for _, figure := range figures {
			require.True(t, strings.Contains(page, figure.words), "the page no longer says %q", figure.words)
			name, value, _ := strings.Cut(figure.constant, " = ")
			is := regexp.MustCompile(name + `\s*= ` + regexp.QuoteMeta(value) + `(\s|$)`)
			files, err := filepath.Glob("../" + figure.dir + "/*.go")
			require.NoError(t, err)
			require.True(t, slices.ContainsFunc(files, func(file string) bool {
				text, err := os.ReadFile(file)
				require.NoError(t, err)
				return is.Match(text)
			}), "the page says %q, but %s has no %s", figure.words, figure.dir, figure.constant)
		}
	})

	t.Run("LinksToDeclarations", func(t *testing.T) {
		t.Parallel()

		links := regexp.MustCompile("\\[`([\\w.]+)`\\]\\(\\.\\./\\.\\./([^)]+\\.go)\\)").FindAllStringSubmatch(page, -1)
		require.Greater(t, len(links), 10)
		for _, link := range links {
			text, err := os.ReadFile("../" + link[2])
			require.NoError(t, err)
			declared := `(?m)^(func|type) ` + link[1] + `\b`
			if receiver, method, is := strings.Cut(link[1], "."); is {
				declared = `(?m)^func \(\w+ \*?` + receiver + `\) ` + method + `\(`
			}
			require.Regexp(t, declared, string(text), "%s has no %s", link[2], link[1])
		}
	})

	t.Run("DrawsTheImports", func(t *testing.T) {
		t.Parallel()
		drawn := drawing(page)

		real := map[[2]string]string{} // an import, and a file that has it
		for _, file := range goFiles(t) {
			dir := filepath.Dir(file)
			if strings.HasSuffix(file, "_test.go") || strings.HasSuffix(dir, "test") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), "../"+file, nil, parser.ImportsOnly)
			require.NoError(t, err)
			for _, spec := range parsed.Imports {
				path, err := strconv.Unquote(spec.Path.Value)
				require.NoError(t, err)
				imported, ours := strings.CutPrefix(path, module+"/")
				from, to := drawn.folder(dir), drawn.folder(imported)
				if ours && from != "" && to != "" && from != to {
					real[[2]string{from, to}] = file
				}
			}
		}

		for name := range drawn.nodes {
			_, err := os.Stat("../" + name)
			require.NoError(t, err, "the diagram has a folder that does not exist")
		}
		for arrow, file := range real {
			require.True(t, drawn.leads(arrow[0], arrow[1]), "%s imports a package of %s: no arrow leads from %s there", file, arrow[1], arrow[0])
		}
		for from, targets := range drawn.arrows {
			for _, to := range targets {
				require.True(t, slices.ContainsFunc(slices.Collect(maps.Keys(real)), func(arrow [2]string) bool {
					return drawn.nodes[arrow[0]] == from && drawn.nodes[arrow[1]] == to
				}), "the diagram has an arrow from %s to %s, but there is no such import", from, to)
				require.False(t, drawn.reaches(to, from), "the diagram has a cycle")
			}
		}
	})
}

// diagram is the diagram of the folders. A node can stand for several folders.
type diagram struct {
	nodes  map[string]string   // ids by folder
	arrows map[string][]string // between ids
}

// drawing reads the first flowchart of the section on the code.
func drawing(page string) diagram {
	d := diagram{nodes: map[string]string{}, arrows: map[string][]string{}}
	_, section, _ := strings.Cut(page, "\n## The code\n")
	_, text, _ := strings.Cut(section, "flowchart TD\n")
	text, _, _ = strings.Cut(text, "```")
	for _, node := range regexp.MustCompile(`(\w+)\["([^"]+)"\]`).FindAllStringSubmatch(text, -1) {
		for folder := range strings.SplitSeq(node[2], ", ") {
			d.nodes[folder] = node[1]
		}
	}
	for line := range strings.Lines(regexp.MustCompile(`\["[^"]+"\]`).ReplaceAllString(text, "")) {
		from, to, _ := strings.Cut(strings.TrimSpace(line), " --> ")
		d.arrows[from] = append(d.arrows[from], strings.Split(to, " & ")...)
	}
	return d
}

// folder returns the drawn folder that a folder is in, or "".
func (d diagram) folder(dir string) (longest string) {
	for name := range d.nodes {
		if (dir == name || strings.HasPrefix(dir, name+"/")) && len(name) > len(longest) {
			longest = name
		}
	}
	return longest
}

// leads reports whether one folder may import another: both are in one node, or arrows lead there.
func (d diagram) leads(from, to string) bool {
	return d.nodes[from] == d.nodes[to] || d.reaches(d.nodes[from], d.nodes[to])
}

func (d diagram) reaches(from, to string) bool {
	return slices.ContainsFunc(d.arrows[from], func(next string) bool { return next == to || d.reaches(next, to) })
}
