package servers

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// budgets is a file with the figures of operations and what they buy.
type budgets struct {
	path    string
	preface []string // the lines before the first operation
	all     []*allowance
}

// allowance is what one operation is allowed to cost.
type allowance struct {
	name  string
	notes []string // lines about the operation as a whole
	figures
	buys map[string]string // what a figure buys
}

// inMemory are the figures of Go's memory, to which something else in the process may add.
var inMemory = map[string]bool{"allocations": true, "allocated bytes": true}

// tolerances are the shares by which figures may differ that are not exact: sizes of rows and buffers vary.
var tolerances = map[string]float64{"rows returned": 0.1, "rows read": 0.01, "WAL bytes": 0.06, "allocations": 0.03, "allocated bytes": 0.2}

// logSlack is how many bytes of the write-ahead log are no difference: how much of a row a record repeats depends on
// its page.
const logSlack = 100

// pageTolerance is that of pages, instead of these: what they show of the last minutes depends on the clock.
const pageTolerance = 0.3

// idleTolerance and idleSlack are those of idle processes: when passes run depends on the clock.
const idleTolerance, idleSlack = 0.5, 5

// exceeds reports whether a figure is above its budget, and undercuts whether it is below.
func (b *allowance) exceeds(figure string, cost int64) bool {
	return float64(cost-b.figures[figure]) > b.margin(figure)
}

func (b *allowance) undercuts(figure string, cost int64) bool {
	if b.idle() { // the machine may have been busy
		return 2*cost < b.figures[figure]
	}
	return float64(b.figures[figure]-cost) > b.margin(figure)
}

func (b *allowance) margin(figure string) float64 {
	if b.idle() {
		return idleSlack + idleTolerance*float64(b.figures[figure])
	}
	tolerance := tolerances[figure]
	if tolerance > 0 && strings.HasSuffix(b.name, pageSuffix) {
		tolerance = pageTolerance
	}
	margin := tolerance * float64(b.figures[figure])
	if figure == "WAL bytes" {
		margin = max(margin, logSlack)
	}
	return margin
}

// idle reports whether the operation is an idle process. On a busy machine it does less.
func (b *allowance) idle() bool { return strings.HasPrefix(b.name, idlePrefix) }

var (
	operationLine = regexp.MustCompile(`^(\w[^:#]*):$`)
	figureLine    = regexp.MustCompile(`^  (\w[^:#]*): (\d+)(?: +# (.*))?$`)
)

func readBudgets(t *testing.T, path string) *budgets {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	f := &budgets{path: path}
	for line := range strings.SplitSeq(strings.TrimSpace(string(data)), "\n") {
		operation, figure := operationLine.FindStringSubmatch(line), figureLine.FindStringSubmatch(line)
		switch {
		case operation != nil:
			f.all = append(f.all, &allowance{name: operation[1], figures: figures{}, buys: map[string]string{}})
		case len(f.all) == 0:
			f.preface = append(f.preface, line)
		case figure != nil:
			require.Contains(t, figureNames, figure[1])
			last := f.all[len(f.all)-1]
			last.figures[figure[1]], err = strconv.ParseInt(figure[2], 10, 64)
			require.NoError(t, err)
			last.buys[figure[1]] = figure[3]
		case line != "":
			require.True(t, strings.HasPrefix(line, "  # "), "%s has the line %q", path, line)
			f.all[len(f.all)-1].notes = append(f.all[len(f.all)-1].notes, line)
		}
	}
	return f
}

// of returns the budget of an operation, or nil.
func (f *budgets) of(name string) *allowance {
	if i := slices.IndexFunc(f.all, func(b *allowance) bool { return b.name == name }); i >= 0 {
		return f.all[i]
	}
	return nil
}

// set replaces the figures that do not fit by those that were counted. The texts stay.
func (f *budgets) set(costs []cost) {
	f.all = slices.DeleteFunc(f.all, func(b *allowance) bool {
		return !slices.ContainsFunc(costs, func(c cost) bool { return c.name == b.name })
	})
	for _, c := range costs {
		b := f.of(c.name)
		if b == nil {
			b = &allowance{name: c.name, figures: figures{}, buys: map[string]string{}}
			f.all = append(f.all, b)
		}
		for _, figure := range figureNames {
			_, known := b.figures[figure]
			differs := b.exceeds(figure, c.figures[figure]) || b.undercuts(figure, c.figures[figure])
			if !known || differs {
				b.figures[figure] = c.figures[figure]
			}
		}
	}
}

func (f *budgets) write(t *testing.T) {
	t.Helper()
	lines := f.preface
	for _, b := range f.all {
		lines = append(append(lines, "", b.name+":"), b.notes...)
		for _, figure := range figureNames {
			line := fmt.Sprintf("  %s: %d", figure, b.figures[figure])
			if buys := b.buys[figure]; buys != "" {
				line = fmt.Sprintf("%-26s # %s", line, buys)
			}
			lines = append(lines, line)
		}
	}
	text := strings.ReplaceAll(strings.Join(lines, "\n"), "\n\n\n", "\n\n") + "\n"
	require.NoError(t, os.WriteFile(f.path, []byte(text), 0o644))
}

// compare returns what does not fit the budgets, as lines for a person.
func (f *budgets) compare(costs []cost) (wrong []string) {
	for _, b := range f.all {
		if !slices.ContainsFunc(costs, func(c cost) bool { return c.name == b.name }) {
			wrong = append(wrong, b.name+": no such operation is counted")
		}
	}
	for _, c := range costs {
		b := f.of(c.name)
		if b == nil {
			wrong = append(wrong, c.name+": it has no budget")
			continue
		}
		fits := len(wrong)
		for _, figure := range figureNames {
			counted, budget := c.figures[figure], b.figures[figure]
			differs := b.exceeds(figure, counted) || b.undercuts(figure, counted) && !b.idle()
			if !differs {
				continue
			}
			line := fmt.Sprintf("%s: %d %s, %+d (budget %d", c.name, counted, figure, counted-budget, budget)
			if buys := b.buys[figure]; buys != "" {
				line += ": " + buys
			}
			wrong = append(wrong, line+")")
		}
		if len(wrong) > fits {
			wrong = append(append(wrong, "  "+c.name+" runs:"), c.ran...)
		}
	}
	return wrong
}

func TestBudgetFile(t *testing.T) {
	t.Parallel()
	const text = "# What it is.\n\nsubmit:\n  # One job.\n  statements: 2            # a read and a write\n  WAL bytes: 10000\n"
	file := func(t *testing.T) *budgets {
		path := filepath.Join(t.TempDir(), "budgets.yaml")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return readBudgets(t, path)
	}
	costs := func(statements, bytes int64) []cost {
		return []cost{{"submit", figures{"statements": statements, "WAL bytes": bytes}, []string{"    1, planned 1, rows 0: SELECT"}}}
	}

	t.Run("AllowsAMarginOnlyWhereCountsVary", func(t *testing.T) {
		t.Parallel()

		require.Empty(t, file(t).compare(costs(2, 10600)))
		require.Empty(t, file(t).compare(costs(2, 9400)))
		require.Equal(t, []string{"submit: 10601 WAL bytes, +601 (budget 10000)", "  submit runs:", "    1, planned 1, rows 0: SELECT"},
			file(t).compare(costs(2, 10601)))
		require.Equal(t, "submit: 1 statements, -1 (budget 2: a read and a write)", file(t).compare(costs(1, 10000))[0])
	})

	t.Run("LacksNoOperation", func(t *testing.T) {
		t.Parallel()

		wrong := file(t).compare([]cost{{name: "cancel"}})

		require.Equal(t, []string{"submit: no such operation is counted", "cancel: it has no budget"}, wrong)
	})

	t.Run("KeepsItsTextsInAnUpdate", func(t *testing.T) {
		t.Parallel()
		f := file(t)

		f.set(costs(13, 10001))
		f.write(t)

		written, err := os.ReadFile(f.path)
		require.NoError(t, err)
		require.Contains(t, string(written), "# What it is.\n\nsubmit:\n  # One job.\n  statements: 13           # a read and a write\n")
		require.Contains(t, string(written), "  WAL bytes: 10000\n", "it is within its margin")
		require.Contains(t, string(written), "  index entries: 0\n", "every figure has a budget")
	})
}
