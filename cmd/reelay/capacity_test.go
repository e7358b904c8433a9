package main

import (
	"bytes"
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// wholePage compares the whole page docs/operators/capacity.md with what is printed, which takes a minute.
var wholePage = flag.Bool("page", false, "compare all tables of the page on capacity")

var (
	pageTable = regexp.MustCompile("`(reelay simulate [a-z][^`]*)`[^`]*```\n([^`]*)\n```")
	cellGap   = regexp.MustCompile(`\s{2,}`)
)

// figuresOf returns the cells of the tables of simulate, by run and by lane or figure.
func figuresOf(printed string) map[string]map[string]string {
	found := map[string]map[string]string{}
	put := func(run, what, value string) {
		if found[run] == nil {
			found[run] = map[string]string{}
		}
		found[run][what] = value
	}
	var runs []string
	for line := range strings.Lines(printed) {
		line = strings.TrimRight(line, "\n")
		cells := cellGap.Split(strings.TrimSpace(line), -1)
		switch {
		case line == "" || cells[0] == "RUN":
		case strings.HasPrefix(line, "      "):
			runs = cells
		case runs == nil:
			put(cells[0], cells[1], strings.Join(cells[2:], " | "))
		default:
			for i, run := range runs {
				put(strings.ToLower(run), cells[0], cells[i+1])
			}
		}
	}
	return found
}

// TestCapacityPage compares the tables of the page with what the commands above them print: of all
// runs with -page, else of those that take a moment.
func TestCapacityPage(t *testing.T) {
	t.Parallel()

	quick := []string{"mass-reclaim", "night-batch", "all-spot", "70-and-10", "with-slack", "anywhere"}
	page, err := os.ReadFile("../../docs/operators/capacity.md")
	require.NoError(t, err)
	checked := 0
	for _, block := range pageTable.FindAllSubmatch(page, -1) {
		scenario := strings.Fields(string(block[1]))[2]
		for name, says := range figuresOf(string(block[2])) {
			if !*wholePage && !slices.Contains(quick, name) {
				continue
			}
			args := []string{"simulate", scenario, "--compare", name}
			if strings.Contains(string(block[1]), name) {
				args = []string{"simulate", name}
			}
			var out bytes.Buffer
			require.Zero(t, run(args, &out, &out), out.String())
			prints := figuresOf(out.String())[name]
			for what, value := range says {
				if what == "break-even of one" && !*wholePage || what == "break-even of one" && len(prints) > 0 && prints[what] == "-" {
					continue // it compares runs
				}
				require.Equal(t, prints[what], value, "%s of %s: run `%s` again and copy its tables", what, name, block[1])
			}
			checked++
		}
	}
	require.GreaterOrEqual(t, checked, 4)
}
