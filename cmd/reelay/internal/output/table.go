package output

import (
	"io"
	"slices"
	"strings"
)

// Table is how a list of T is shown.
type Table[T any] struct {
	Columns []Column[T]
	// Name returns what --output name prints of a row: an id that other commands take.
	Name func(T) string
	// None is said of an empty list, such as "No jobs."
	None string
}

// Column is one column of a table.
type Column[T any] struct {
	Title string
	// Value returns a string, number, time, list of strings, or a pointer to one. Nil and ""
	// are shown as a dash.
	Value func(T) any
	Kind  Kind
	// Wide shows the column only with --output wide.
	Wide bool
	// Minor columns are left out if no row has a value, and on a terminal that is too narrow for all, the last one
	// first.
	Minor bool
}

// Kind says what a column contains, and so how it is shown on a terminal.
type Kind int

const (
	// Plain values are shown as they are, and shortened only if nothing else is left to shorten.
	Plain Kind = iota
	// ID values are ids: a terminal shows the beginning, as far as it is unique in the table.
	ID
	// State values have the colour of their state.
	State
	// Long values, such as prompts and reasons, are shortened first.
	Long
)

// Write prints the rows under a header.
func (t *Table[T]) Write(s *Screen, rows []T) error {
	g := grid{}
	for _, c := range t.Columns {
		if c.Wide && !s.Wide {
			continue
		}
		texts := make([]string, len(rows))
		for i, row := range rows {
			texts[i] = Clean(s.value(c.Value(row)))
		}
		if c.Minor && !s.Wide && len(rows) > 0 && !slices.ContainsFunc(texts, func(cell string) bool { return cell != "-" }) {
			continue // nothing is known: of hosts without GPUs, for example
		}
		g.add(gridColumn{title: c.Title, kind: c.Kind, minor: c.Minor, cells: texts})
	}
	return g.write(s, len(rows))
}

// WriteRows prints rows of plain cells under a header, for tables that are part of a page.
func WriteRows(out io.Writer, header []string, rows [][]string) error {
	g := grid{}
	for i, title := range header {
		texts := make([]string, len(rows))
		for j, row := range rows {
			texts[j] = Clean(row[i])
		}
		kind := Plain
		switch {
		case title == "STATE" || title == "STATUS":
			kind = State
		case i == len(header)-1:
			kind = Long
		}
		g.add(gridColumn{title: title, kind: kind, cells: texts})
	}
	return g.write(ScreenOf(out), len(rows))
}

// grid is a table as text.
type grid struct{ columns []gridColumn }

type gridColumn struct {
	title string
	kind  Kind
	minor bool
	cells []string
	width int
}

func (g *grid) add(c gridColumn) { g.columns = append(g.columns, c) }

// gap separates two columns.
const gap = "  "

func (g *grid) write(s *Screen, rows int) error {
	if len(g.columns) == 0 {
		return nil
	}
	for i := range g.columns {
		c := &g.columns[i]
		if c.kind == ID && s.Width > 0 && !s.Wide {
			c.cells = shortIDs(c.cells)
		}
		c.width = Width(c.title)
		for _, cell := range c.cells {
			c.width = max(c.width, Width(cell))
		}
	}
	g.fit(s.Width)
	var b strings.Builder
	g.line(&b, s, func(c *gridColumn) (string, Color) { return c.title, Bold })
	for row := range rows {
		g.line(&b, s, func(c *gridColumn) (string, Color) {
			if c.kind == State {
				return c.cells[row], StateColor(c.cells[row])
			}
			return c.cells[row], ""
		})
	}
	_, err := io.WriteString(s, b.String())
	return err
}

// line writes one line, without spaces at its end.
func (g *grid) line(b *strings.Builder, s *Screen, cell func(*gridColumn) (string, Color)) {
	blank := 0
	for i := range g.columns {
		c := &g.columns[i]
		if c.width == 0 {
			continue
		}
		text, color := cell(c)
		text = Clip(text, c.width)
		if text != "" {
			b.WriteString(strings.Repeat(" ", blank))
			b.WriteString(s.Paint(color, text))
			blank = 0
		}
		blank += c.width - Width(text) + len(gap)
	}
	b.WriteByte('\n')
}

// legible is how wide a column of states or long text should at least be, if leaving out minor
// columns can make it so.
const legible = 15

// fit makes a line fit into width, which is 0 for no limit. Minor columns are left out if the others
// would otherwise have to be shortened much. Then columns of long text give first, then states, then
// the others except ids; each time the widest. A terminal that is still too narrow shows the first
// columns only.
func (g *grid) fit(width int) {
	if width == 0 {
		return
	}
	g.dropMinor(width)
	over := -len(gap) - width
	for _, c := range g.columns {
		over += c.width + len(gap)
	}
	for _, pass := range []struct {
		kinds func(Kind) bool
		least int
	}{
		{func(k Kind) bool { return k == Long }, 10},
		{func(k Kind) bool { return k == State }, 10},
		{func(k Kind) bool { return k != ID }, 6},
	} {
		for over > 0 {
			var widest *gridColumn
			for i := range g.columns {
				if c := &g.columns[i]; pass.kinds(c.kind) && c.width > pass.least && (widest == nil || c.width > widest.width) {
					widest = c
				}
			}
			if widest == nil {
				break
			}
			widest.width--
			over--
		}
	}
	for i := len(g.columns) - 1; i > 0 && over > 0; i-- {
		over -= g.columns[i].width + len(gap)
		g.columns[i].width = 0
	}
	if over > 0 {
		g.columns[0].width = max(1, g.columns[0].width-over)
	}
}

// dropMinor leaves out minor columns until the others fit, with long text still legible.
func (g *grid) dropMinor(width int) {
	over := -len(gap) - width
	for _, c := range g.columns {
		needs := c.width
		if c.kind == Long || c.kind == State {
			needs = min(needs, legible)
		}
		over += needs + len(gap)
	}
	for i := len(g.columns) - 1; i > 0 && over > 0; i-- {
		if g.columns[i].minor {
			over -= g.columns[i].width + len(gap)
			g.columns = slices.Delete(g.columns, i, i+1)
		}
	}
}
