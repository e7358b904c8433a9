package submission

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/input"
	"github.com/reelay/reelay/internal/text"
)

// table is a CSV file whose header row names the fields of submissions.
type table struct {
	columns []column
	header  []string
	// model is that of rows without one.
	model string
	kinds *paramKinds
}

// column is what the cells of a column are.
type column struct {
	group, field string // group is params, metadata, retry, draft or ""; without a name, both are empty
	text         bool   // a cell is not read as JSON
	enum         bool   // a cell is written in upper case
	list         bool   // a cell has several words
	number       bool
	whole        bool // a number without a fraction
	boolean      bool
}

// name is what the header calls the column.
func (c column) name() string {
	if c.group == "" {
		return c.field
	}
	return c.group + "." + c.field
}

const (
	paramsGroup, metadataGroup = "params", "metadata"
	maxColumns                 = 200
)

// submissionColumns are the columns besides params.NAME and metadata.NAME, by name.
var submissionColumns = columnsOf("", reflect.TypeFor[client.SubmitJobInput]())

func columnsOf(group string, of reflect.Type) map[string]column {
	all := map[string]column{}
	for field := range of.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		kind := field.Type
		for kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		}
		isEnum := kind.Kind() == reflect.String && kind.PkgPath() != ""
		switch {
		case name == paramsGroup || name == metadataGroup:
		case kind.Kind() == reflect.Struct && kind.PkgPath() == reflect.TypeFor[client.SubmitJobInput]().PkgPath():
			for inner, c := range columnsOf(name, kind) {
				all[name+"."+inner] = c
			}
		default:
			all[name] = column{group: group, field: name, enum: isEnum, list: kind.Kind() == reflect.Slice, boolean: kind.Kind() == reflect.Bool,
				number: kind.Kind() >= reflect.Int && kind.Kind() <= reflect.Float64, whole: kind.Kind() < reflect.Float32,
				text: kind.Kind() == reflect.String || kind.Kind() == reflect.Struct} // a struct of another package is a time
		}
	}
	return all
}

// parseHeader reads the header row.
func parseHeader(header []string) ([]column, error) {
	if len(header) > maxColumns {
		return nil, fmt.Errorf("there are %d columns: at most %d are allowed", len(header), maxColumns)
	}
	if slices.ContainsFunc(header, func(name string) bool { return strings.Contains(strings.TrimSpace(name), "\r") }) {
		return nil, errors.New("its lines end as on old Macs (CR alone): save the file as CSV UTF-8")
	}
	var all []column
	seen := map[string]bool{}
	for _, name := range header {
		name = strings.TrimSpace(name)
		group, field, grouped := strings.Cut(name, ".")
		c, known := submissionColumns[name]
		if grouped && field != "" && (group == paramsGroup || group == metadataGroup) {
			c, known = column{group: group, field: field}, true
		}
		switch {
		case name == "": // its cells must be empty
			all = append(all, column{})
			continue
		case !known:
			return nil, unknownColumn(name)
		case seen[name]:
			return nil, fmt.Errorf("there are two columns named %s", name)
		}
		seen[name] = true
		all = append(all, c)
	}
	return all, nil
}

func unknownColumn(name string) error {
	known := []string{}
	for column := range submissionColumns {
		known = append(known, column)
	}
	slices.Sort(known)
	hint := "."
	if near := text.Nearest(name, append(known, paramsGroup+".NAME", metadataGroup+".NAME")); near != "" {
		hint = "; did you mean " + near + "?"
	} else if strings.ContainsAny(name, ";\t") {
		hint = "; columns are separated by commas."
	}
	return fmt.Errorf("there is no column %q%s The columns are %s, params.NAME and metadata.NAME", text.Clip(name, 64), hint, text.Join(known))
}

// rows yields the rows of a CSV file, after its header.
func (t *table) rows(in *bufio.Reader, yield func(entry) bool) {
	separator, skipped := separatorOf(in)
	left := &io.LimitedReader{R: in, N: maxElement}
	reader := csv.NewReader(left)
	reader.FieldsPerRecord, reader.Comma = -1, separator
	for first := true; ; {
		left.N = maxElement
		cells, err := reader.Read()
		end := reader.InputOffset()
		if errors.Is(err, io.EOF) && left.N > 0 {
			return
		}
		var wrong *csv.ParseError
		if err == nil || errors.As(err, &wrong) && left.N > 0 && !first {
			line := 0
			if wrong != nil {
				line, err = wrong.StartLine+skipped,
					fmt.Errorf("its quotation marks are wrong (%w): write a quotation mark within a cell twice, and one around the cell", wrong.Err)
			} else {
				line, _ = reader.FieldPos(0)
				line += skipped
			}
			e := entry{unit: "line", at: line, end: end, header: t.header, row: cells}
			switch {
			case first:
				first = false
				t.header = cells
				if t.columns, e.err = parseHeader(cells); e.err != nil {
					yield(e)
					return
				}
				continue
			case empty(cells) && err == nil:
				continue
			case err != nil:
				e.problem = err
			default:
				e.text, e.problem = t.submission(cells)
			}
			if !yield(e) {
				return
			}
			continue
		}
		line := 1
		if wrong != nil {
			line, err = wrong.StartLine, wrong.Err
		}
		if left.N <= 0 {
			err = fmt.Errorf("the row is longer than %d kB: a quotation mark may not be closed", maxLine>>10)
		}
		yield(entry{unit: "line", at: line, err: err})
		return
	}
}

// separatorOf returns what separates the cells, and how many lines of in it consumed: one that says so, such
// as sep=; of spreadsheets. Where a comma separates decimals, spreadsheets write semicolons; as text, tabs.
func separatorOf(in *bufio.Reader) (separator rune, lines int) {
	head, _ := in.Peek(maxLine)
	first, _, _ := bytes.Cut(head, []byte("\n"))
	says := strings.Trim(strings.TrimSuffix(string(first), "\r"), `"`)
	if rest, ok := strings.CutPrefix(strings.ToLower(says), "sep="); ok && len(rest) == 1 &&
		strings.Contains(",;\t|", rest) && len(first) < len(head) {
		_, _ = in.Discard(len(first) + 1) // it was peeked
		return rune(rest[0]), 1
	}
	switch {
	case bytes.ContainsRune(first, ','):
		return ',', 0
	case bytes.ContainsRune(first, ';'):
		return ';', 0
	case bytes.ContainsRune(first, '\t'):
		return '\t', 0
	}
	return ',', 0
}

func empty(cells []string) bool {
	return !slices.ContainsFunc(cells, func(cell string) bool { return strings.TrimSpace(cell) != "" })
}

// submission makes the JSON of a row. An empty cell leaves its field out.
func (t *table) submission(cells []string) (json.RawMessage, error) {
	for len(cells) > len(t.columns) && strings.TrimSpace(cells[len(cells)-1]) == "" {
		cells = cells[:len(cells)-1] // spreadsheets write cells of columns that were emptied
	}
	if len(cells) != len(t.columns) {
		return nil, fmt.Errorf("it has %s, and the header has %d: quote cells that have commas", text.Count(len(cells), "cell"), len(t.columns))
	}
	model, size := "", 0
	for i, c := range t.columns {
		size += len(cells[i])
		if c.group == "" && c.field == "model" {
			model = strings.TrimSpace(cells[i])
		}
	}
	model = cmp.Or(model, t.model)
	if size > maxLine {
		return nil, fmt.Errorf("it is longer than %d kB", maxLine>>10)
	}
	all, groups := input.Fields{}, map[string]input.Fields{}
	for i, c := range t.columns {
		cell := cells[i]
		if strings.TrimSpace(cell) == "" {
			continue
		}
		if !utf8.ValidString(cell) {
			return nil, errors.New("it is not valid UTF-8: save the file as CSV UTF-8")
		}
		if c == (column{}) {
			return nil, fmt.Errorf("column %d has no name, and its cell is %q: name the column, or empty the cell", i+1,
				text.Clip(strings.TrimSpace(cell), 40))
		}
		into := all
		if c.group != "" {
			if groups[c.group] == nil {
				groups[c.group] = input.Fields{}
			}
			into = groups[c.group]
		}
		value, err := t.value(c, model, cell)
		if err != nil {
			return nil, err
		}
		into[c.field] = value
	}
	for group, of := range groups {
		all[group] = *of.Message()
	}
	if message := all.Message(); message != nil {
		return *message, nil
	}
	return json.RawMessage("{}"), nil
}

// value returns a cell as JSON.
func (t *table) value(c column, model, cell string) (json.RawMessage, error) {
	trimmed := strings.TrimSpace(cell)
	if cellError.MatchString(trimmed) {
		return nil, errCell(c.name(), trimmed)
	}
	if c.group == paramsGroup {
		kind := t.kinds.kind(model, c.field)
		c.text, c.whole, c.number = kind == "string", kind == "integer", kind == "integer" || kind == "number"
		c.boolean = kind == "boolean"
	}
	if of, is := booleans[strings.ToUpper(trimmed)]; is && c.boolean {
		return json.RawMessage(strconv.FormatBool(of)), nil
	}
	switch {
	case c.enum:
		cell = strings.ToUpper(trimmed)
	case c.list && !strings.HasPrefix(trimmed, "["):
		words, _ := json.Marshal(strings.Fields(trimmed)) // texts only
		return words, nil
	case c.number && unreadableNumber(trimmed, c.whole) != "":
		return nil, fmt.Errorf("%s is %s: %s", c.name(), text.Clip(trimmed, 40), unreadableNumber(trimmed, c.whole))
	case !c.text:
		if value := spreadsheetValue(trimmed); value[0] != '"' || trimmed[0] == '"' {
			return value, nil
		}
	case c.field != "prompt":
		cell = trimmed
	}
	return jsonText(cell), nil
}

// withoutMark removes the mark that some programs write at the beginning of a file in UTF-8. It
// refuses UTF-16.
func withoutMark(in *bufio.Reader) error {
	head, _ := in.Peek(3)
	if bytes.Equal(head, []byte("\xef\xbb\xbf")) {
		_, err := in.Discard(3)
		return err
	}
	if text.InUTF16(head) {
		return errors.New("it is in UTF-16: save it as UTF-8 (spreadsheets call it CSV UTF-8)")
	}
	return nil
}
