package console

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/a-h/templ/parser/v2"
	"github.com/stretchr/testify/require"
)

// What a text that is written so far can end with. A bit set, as branches end differently.
const (
	endsApart = 1 << iota // a block, or nothing
	endsSpace
	endsWord
	endsOpen // a bracket or the like, after which no space belongs
)

// inlineTags are elements that are parts of a sentence.
var inlineTags = []string{"a", "abbr", "b", "button", "code", "em", "i", "kbd", "mark", "small", "span", "strong", "time"}

// runOns reads templates as templ writes them, and finds text that runs together. templ drops the
// line breaks around a component, and after an if, a for or a switch.
type runOns struct {
	components map[string]*component
	flows      map[string]bool // classes whose elements the style sheets lay out apart
	found      map[string]bool
	calls      []string // the components that are being read, and where they are called
}

type component struct {
	file, pkg string
	nodes     []parser.Node
}

// walk reads nodes after a text with one of these ends, and returns its ends. next is what follows
// the nodes.
func (r *runOns) walk(c *component, nodes []parser.Node, next parser.Node, ends int, children func(int) int) int {
	for i, node := range nodes {
		following := next
		if i+1 < len(nodes) {
			following = nodes[i+1]
		}
		ends = r.node(c, node, following, ends, children)
		if t, ok := node.(parser.WhitespaceTrailer); ok && t.Trailing() != parser.SpaceNone && inline(node) && inline(following) {
			ends = endsSpace
		}
	}
	return ends
}

// bare returns nodes without the white space around them, as templ writes branches and elements.
func bare(nodes []parser.Node) []parser.Node {
	return slices.DeleteFunc(slices.Clone(nodes), func(n parser.Node) bool {
		switch n.(type) {
		case *parser.Whitespace, *parser.GoComment, *parser.HTMLComment:
			return true
		}
		return false
	})
}

// inline is what templ keeps white space around.
func inline(node parser.Node) bool {
	switch n := node.(type) {
	case *parser.IfExpression, *parser.SwitchExpression, *parser.ForExpression, *parser.Text, *parser.StringExpression:
		return true
	case *parser.Element:
		return !n.IsBlockElement()
	}
	return false
}

func (r *runOns) node(c *component, node, next parser.Node, ends int, children func(int) int) int {
	inside := func(nodes []parser.Node, ends int) int { return r.walk(c, bare(nodes), next, ends, children) }
	switch n := node.(type) {
	case *parser.Text:
		return r.text(c, n.Range.From.Line, n.Value, n.Value, ends)
	case *parser.StringExpression:
		switch name, _, _ := strings.Cut(n.Expression.Value, "("); strings.TrimPrefix(name, "shell.") {
		case "Verbatim":
			return endsApart
		case "Listed", "Because":
			ends = endsApart // they begin with what belongs before them
		}
		first, last := literalEnds(n.Expression.Value)
		return r.text(c, n.Expression.Range.From.Line, first, last, ends)
	case *parser.Element:
		switch {
		case n.Name == "script" || n.Name == "style" || n.Name == "svg":
			return endsApart
		case r.flowing(n):
			for _, child := range bare(n.Children) {
				r.loose(c, child, children)
			}
			return endsApart
		case slices.Contains(inlineTags, n.Name) && !boxed(n):
			return r.walk(c, bare(n.Children), nil, ends, children)
		}
		r.walk(c, bare(n.Children), nil, endsApart, children)
		return endsApart
	case *parser.IfExpression:
		after := inside(n.Then, ends)
		for _, or := range n.ElseIfs {
			after |= inside(or.Then, ends)
		}
		if len(n.Else) == 0 {
			return after | ends
		}
		return after | inside(n.Else, ends)
	case *parser.SwitchExpression:
		after := ends
		for _, of := range n.Cases {
			after |= inside(of.Children, ends)
		}
		return after
	case *parser.ForExpression:
		once := inside(n.Children, ends)
		return ends | inside(n.Children, once|ends)
	case *parser.TemplElementExpression:
		return r.call(c, n.Expression, ends, func(ends int) int { return r.walk(c, bare(n.Children), nil, ends, children) })
	case *parser.ChildrenExpression:
		if children != nil {
			return children(ends)
		}
	case *parser.Whitespace, *parser.GoCode, *parser.GoComment, *parser.HTMLComment:
		return ends
	}
	return endsApart
}

// classes returns the classes of an element that are written in the template.
func classes(n *parser.Element) (all []string) {
	for _, a := range n.Attributes {
		switch a := a.(type) {
		case *parser.ConstantAttribute:
			if a.Key.String() == "class" {
				all = append(all, strings.Fields(a.Value)...)
			}
		case *parser.ExpressionAttribute:
			if a.Key.String() == "class" {
				for _, literal := range quoted.FindAllString(a.Expression.Value, -1) {
					all = append(all, strings.Fields(strings.Trim(literal, `"`))...)
				}
			}
		}
	}
	return all
}

// flowing is true for an element whose children are laid out beside each other.
func (r *runOns) flowing(n *parser.Element) bool {
	return slices.ContainsFunc(classes(n), func(class string) bool { return r.flows[class] })
}

// boxed is true for an element within a line that has a border or a ground of its own.
func boxed(n *parser.Element) bool {
	of := classes(n)
	if n.Name == "button" {
		return !slices.Contains(of, "link") && !slices.Contains(of, "id")
	}
	return n.Name == "kbd" || slices.Contains(of, "button") || slices.Contains(of, "badge") || slices.Contains(of, "severity")
}

// loose reads a child of an element whose children are laid out beside each other.
func (r *runOns) loose(c *component, node parser.Node, children func(int) int) {
	for _, branch := range branches(node) {
		for _, child := range bare(branch) {
			r.loose(c, child, children)
		}
	}
	if len(branches(node)) == 0 {
		r.node(c, node, nil, endsApart, children)
	}
}

// branches are the nodes within an if, a for or a switch.
func branches(node parser.Node) (all [][]parser.Node) {
	switch n := node.(type) {
	case *parser.IfExpression:
		all = append(all, n.Then, n.Else)
		for _, or := range n.ElseIfs {
			all = append(all, or.Then)
		}
	case *parser.ForExpression:
		all = append(all, n.Children)
	case *parser.SwitchExpression:
		for _, of := range n.Cases {
			all = append(all, of.Children)
		}
	}
	return all
}

// call reads the component that an expression calls.
func (r *runOns) call(c *component, expression parser.Expression, ends int, children func(int) int) int {
	name, _, _ := strings.Cut(expression.Value, "(")
	if !strings.Contains(name, ".") {
		name = c.pkg + "." + name
	}
	called := r.components[name]
	if called == nil || len(r.calls) > 12 {
		return endsApart
	}
	r.calls = append(r.calls, fmt.Sprintf(" (called at %s:%d)", c.file, expression.Range.From.Line+1))
	defer func() { r.calls = r.calls[:len(r.calls)-1] }()
	return r.walk(called, bare(called.nodes), nil, ends, children)
}

// text notes what goes wrong where a text begins that begins as first and ends as last.
func (r *runOns) text(c *component, line uint32, first, last string, ends int) int {
	begin, _ := utf8.DecodeRuneInString(first)
	end, _ := utf8.DecodeLastRuneInString(last)
	tell := func(what string) {
		from := ""
		if n := len(r.calls); n > 0 {
			from = r.calls[n-1]
		}
		r.found[fmt.Sprintf("%s:%d%s: %s", c.file, line+1, from, what)] = true
	}
	switch {
	case ends&endsWord != 0 && (unicode.IsLetter(begin) || unicode.IsDigit(begin) || strings.ContainsRune("(“·↳→", begin)):
		tell(fmt.Sprintf("%q runs into the text before it", first))
	case ends&endsSpace != 0 && strings.ContainsRune(",.:;!?)", begin):
		tell(fmt.Sprintf("a space stands before %q", first))
	}
	switch {
	case unicode.IsSpace(end):
		return endsSpace
	case strings.ContainsRune("(“#/↳", end):
		return endsOpen
	}
	return endsWord
}

var quoted = regexp.MustCompile("\"(?:[^\"\\\\]|\\\\.)*\"|`[^`]*`")

// literalEnds returns texts that begin and end as the value of a Go expression does, as far as
// its literals tell.
func literalEnds(expression string) (first, last string) {
	first, last = "value", "value"
	expression = strings.TrimSpace(expression)
	for _, at := range quoted.FindAllStringIndex(expression, -1) {
		value, err := strconv.Unquote(expression[at[0]:at[1]])
		if err != nil || value == "" {
			continue
		}
		if at[0] == 0 || expression[:at[0]] == "fmt.Sprintf(" {
			first = value
		}
		if at[1] == len(expression) {
			last = value
		}
	}
	return first, last
}

var (
	flowRule  = regexp.MustCompile(`(?m)([^{}\n]+)\{[^{}]*display: (?:inline-)?(?:flex|grid)`)
	lastClass = regexp.MustCompile(`\.([\w-]+)\s*(?:,|$)`)
)

// Text must not run together. templ drops white space around components, which a diff does not
// show, and only some branch of a page.
func TestTextDoesNotRunTogether(t *testing.T) {
	t.Parallel()

	r := &runOns{components: map[string]*component{}, flows: map[string]bool{}, found: map[string]bool{}}
	sheets, err := filepath.Glob("static/css/*.css")
	require.NoError(t, err)
	for _, sheet := range sheets {
		rules, err := os.ReadFile(sheet)
		require.NoError(t, err)
		for _, rule := range flowRule.FindAllSubmatch(rules, -1) {
			for _, class := range lastClass.FindAllSubmatch(rule[1], -1) {
				r.flows[string(class[1])] = true
			}
		}
	}
	for _, pattern := range []string{"*/*.templ", "../ui/*.templ"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			pkg := filepath.Base(filepath.Dir(file))
			parsed, err := parser.Parse(file)
			require.NoError(t, err, file)
			for _, node := range parsed.Nodes {
				if of, ok := node.(*parser.HTMLTemplate); ok {
					name, _, _ := strings.Cut(of.Expression.Value, "(")
					r.components[pkg+"."+name] = &component{file, pkg, of.Children}
				}
			}
		}
	}

	for _, c := range r.components {
		r.walk(c, bare(c.nodes), nil, endsApart, nil)
	}

	for _, found := range slices.Sorted(maps.Keys(r.found)) {
		t.Error(found)
	}
}
