package main

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/internal/yamlfile"
)

// table is a CSV file whose header row names the fields of submissions.
type table struct {
	columns []column
	header  []string
	// texts reports whether a parameter of a model is a text, whatever it looks like.
	texts func(model, param string) bool
}

// column is what the cells of a column are.
type column struct {
	group, field string // group is params, metadata, retry, draft or ""
	text         bool   // a cell is not read as JSON
	enum         bool   // a cell is written in upper case
	list         bool   // a cell has several words
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
			all[name] = column{group: group, field: name, enum: isEnum, list: kind.Kind() == reflect.Slice,
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
	var all []column
	seen := map[string]bool{}
	for i, name := range header {
		name = strings.TrimSpace(name)
		group, field, grouped := strings.Cut(name, ".")
		c, known := submissionColumns[name]
		if grouped && field != "" && (group == paramsGroup || group == metadataGroup) {
			c, known = column{group: group, field: field}, true
		}
		switch {
		case name == "":
			return nil, fmt.Errorf("column %d has no name", i+1)
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
	if near := yamlfile.Nearest(name, append(known, paramsGroup+".NAME", metadataGroup+".NAME")); near != "" {
		hint = "; did you mean " + near + "?"
	} else if strings.ContainsAny(name, ";\t") {
		hint = "; columns are separated by commas."
	}
	return fmt.Errorf("there is no column %q%s The columns are %s, params.NAME and metadata.NAME", text.Clip(name, 64), hint, text.Join(known))
}

// rows yields the rows of a CSV file, after its header.
func (t *table) rows(in io.Reader, yield func(entry) bool) {
	left := &io.LimitedReader{R: in, N: maxElement}
	reader := csv.NewReader(left)
	reader.FieldsPerRecord = -1
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
				line, err = wrong.StartLine, fmt.Errorf("its quotation marks are wrong (%w): write a quotation mark within a cell twice, and one around the cell", wrong.Err)
			} else {
				line, _ = reader.FieldPos(0)
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

func empty(cells []string) bool {
	return !slices.ContainsFunc(cells, func(cell string) bool { return strings.TrimSpace(cell) != "" })
}

// submission makes the JSON of a row. An empty cell leaves its field out.
func (t *table) submission(cells []string) (json.RawMessage, error) {
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
	if size > maxLine {
		return nil, fmt.Errorf("it is longer than %d kB", maxLine>>10)
	}
	all, groups := fields{}, map[string]fields{}
	for i, c := range t.columns {
		cell := cells[i]
		if strings.TrimSpace(cell) == "" {
			continue
		}
		if !utf8.ValidString(cell) {
			return nil, errors.New("it is not valid UTF-8: save the file as CSV UTF-8")
		}
		into := all
		if c.group != "" {
			if groups[c.group] == nil {
				groups[c.group] = fields{}
			}
			into = groups[c.group]
		}
		into[c.field] = t.value(c, model, cell)
	}
	for group, of := range groups {
		all[group] = *of.message()
	}
	if message := all.message(); message != nil {
		return *message, nil
	}
	return json.RawMessage("{}"), nil
}

// value returns a cell as JSON.
func (t *table) value(c column, model, cell string) json.RawMessage {
	trimmed := strings.TrimSpace(cell)
	switch {
	case c.enum:
		cell = strings.ToUpper(trimmed)
	case c.list && !strings.HasPrefix(trimmed, "["):
		words, _ := json.Marshal(strings.Fields(trimmed)) // texts only
		return words
	case !c.text && !(c.group == paramsGroup && t.texts != nil && t.texts(model, c.field)):
		if value := jsonValue(trimmed); value[0] != '"' || trimmed[0] == '"' {
			return value
		}
	case c.field != "prompt":
		cell = trimmed
	}
	return jsonText(cell)
}

// withoutMark removes the mark that some programs write at the beginning of a file in UTF-8. It
// refuses UTF-16.
func withoutMark(in *bufio.Reader) error {
	head, _ := in.Peek(3)
	switch {
	case bytes.Equal(head, []byte("\xef\xbb\xbf")):
		_, err := in.Discard(3)
		return err
	case bytes.HasPrefix(head, []byte("\xff\xfe")), bytes.HasPrefix(head, []byte("\xfe\xff")):
		return errors.New("it is in UTF-16: save it as UTF-8")
	}
	return nil
}
