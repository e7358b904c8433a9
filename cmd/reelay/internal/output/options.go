package output

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/itchyny/gojq"
	"github.com/spf13/cobra"
)

// Formats are the values of --output.
var Formats = []string{"table", "wide", "json", "yaml", "name"}

// Options are the flags that say how a command prints its answer.
type Options struct {
	format   string
	json     bool
	jq       string
	absolute bool

	code *gojq.Code
}

// AddFlags adds the flags to a command.
func (o *Options) AddFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&o.format, "output", "o", "table", "`format`: table, wide, json, yaml or name")
	f.StringVar(&o.jq, "jq", "", "print what a jq `expression` makes of the JSON")
	f.BoolVar(&o.json, "json", false, "the same as --output json")
	f.BoolVar(&o.absolute, "absolute", false, "show times as dates, instead of as 3 min ago")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(Formats, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("jq", cobra.NoFileCompletions)
}

// AddDocumentFlags adds only --json and --jq, for commands whose text is not a table or whose --output is a file.
// asJSON is set before the command runs, if either is given.
func (o *Options) AddDocumentFlags(cmd *cobra.Command, asJSON *bool) {
	cmd.Flags().BoolVar(&o.json, "json", false, "print one JSON document")
	o.AddJQ(cmd, asJSON)
}

// AddJQ adds only --jq, for commands whose --json names a file. asJSON is set before the command runs,
// if the answer is printed as JSON.
func (o *Options) AddJQ(cmd *cobra.Command, asJSON *bool) {
	o.format = "table"
	cmd.Flags().StringVar(&o.jq, "jq", "", "print what a jq `expression` makes of the JSON")
	_ = cmd.RegisterFlagCompletionFunc("jq", cobra.NoFileCompletions)
	before := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if err := o.Check(); err != nil {
			return err
		}
		*asJSON = !o.ForPeople()
		if before == nil {
			return nil
		}
		return before(cmd, args)
	}
}

// Check reads the flags. Its error is about one of them.
func (o *Options) Check() error {
	o.format = strings.ToLower(o.format)
	switch {
	case !slices.Contains(Formats, o.format):
		return fmt.Errorf("--output is %q: it must be table, wide, json, yaml or name", o.format)
	case o.json && o.format != "table" && o.format != "json":
		return fmt.Errorf("--json and --output %s are both given: use one of them", o.format)
	case o.jq != "" && o.format != "table" && o.format != "json":
		return fmt.Errorf("--jq and --output %s are both given: use one of them", o.format)
	}
	if o.json || o.jq != "" {
		o.format = "json"
	}
	if o.jq == "" {
		return nil
	}
	query, err := gojq.Parse(o.jq)
	if err == nil {
		o.code, err = gojq.Compile(query)
	}
	if err != nil {
		return fmt.Errorf("--jq is not a jq expression: %w", err)
	}
	return nil
}

// Format returns the chosen format.
func (o *Options) Format() string { return strings.ToLower(o.format) }

// Document is an answer that is a document in YAML itself: --output yaml prints it as it is.
type Document struct {
	Source string `json:"source"`
}

// ForPeople reports whether the answer is printed for people, not for programs.
func (o *Options) ForPeople() bool { return o.format == "table" || o.format == "wide" }

// Wide reports whether all columns are printed for people.
func (o *Options) Wide() bool { return o.format == "wide" }

// Screen returns the screen of an output as the flags of cmd want it.
func (o *Options) Screen(cmd *cobra.Command, out io.Writer) *Screen {
	s := *ScreenOf(out)
	s.Wide, s.Absolute = o.format == "wide", o.absolute
	if NoColor(cmd) {
		s.Color = false
	}
	return &s
}

// NoColor reports whether --no-color is given.
func NoColor(cmd *cobra.Command) bool {
	off, err := cmd.Flags().GetBool("no-color")
	return err == nil && off
}

// Print prints an answer: as text prints it for people, or in the chosen format.
func (o *Options) Print(s *Screen, answer any, text func(io.Writer) error) error {
	switch o.format {
	case "json":
		return o.document(s, answer)
	case "yaml":
		if d, ok := answer.(Document); ok {
			_, err := io.WriteString(s, d.Source)
			return err
		}
		data, err := json.Marshal(answer)
		if err == nil {
			data, err = yaml.JSONToYAML(data)
		}
		if err != nil {
			return err
		}
		_, err = s.Write(data)
		return err
	case "name":
		return printName(s, answer)
	}
	return text(s)
}

// Show prints a list: as a table for people, or in the chosen format. answer is what JSON has
// of it. What is only a remark goes to remarks.
func Show[T any](o *Options, s *Screen, remarks io.Writer, t *Table[T], list *List[T], answer any) error {
	switch {
	case o.format == "name" && t.Name != nil:
		var b strings.Builder
		for _, item := range list.Items {
			b.WriteString(t.Name(item) + "\n")
		}
		_, err := io.WriteString(s, b.String())
		return err
	case o.format == "name":
		return errors.New("--output name: what this lists has no names")
	case !o.ForPeople():
		return o.Print(s, answer, nil)
	case len(list.Items) == 0 && !list.HasNextPage && t.None != "":
		_, err := fmt.Fprintln(remarks, t.None)
		return err
	}
	if err := t.Write(s, list.Items); err != nil {
		return err
	}
	return list.More(remarks)
}

// Line prints an answer as one line of JSON, or what the jq expression makes of it.
func (o *Options) Line(out io.Writer, answer any) error {
	if o.code == nil {
		return json.NewEncoder(out).Encode(answer)
	}
	return o.document(out, answer)
}

// document prints JSON, or what the jq expression makes of it.
func (o *Options) document(out io.Writer, answer any) error {
	if o.code == nil {
		return JSON(out, answer)
	}
	data, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	var document any
	if err := json.Unmarshal(data, &document); err != nil {
		return err
	}
	for results := o.code.Run(document); ; {
		v, more := results.Next()
		if !more {
			return nil
		}
		if err := o.result(out, v); err != nil {
			return err
		}
	}
}

// result prints one result of the jq expression: a string as it is, all else as JSON.
func (o *Options) result(out io.Writer, v any) error {
	if err, failed := v.(error); failed {
		if halt, ok := errors.AsType[*gojq.HaltError](err); ok && halt.Value() == nil {
			return nil
		}
		return fmt.Errorf("--jq: %w", err)
	}
	if text, ok := v.(string); ok {
		_, err := fmt.Fprintln(out, text)
		return err
	}
	line, err := gojq.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n", line)
	return err
}

// JSON prints one indented JSON document.
func JSON(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false) // links stay links
	return enc.Encode(v)
}

// printName prints the id of an answer, or its name if it has no id.
func printName(out io.Writer, answer any) error {
	data, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	var named struct {
		ID    string `json:"id"`
		Name  string `json:"name"`
		Items []struct {
			ID   string `json:"id"`
			Name string `json:"name"`
		} `json:"items"`
	}
	if json.Unmarshal(data, &named) != nil || named.ID == "" && named.Name == "" && len(named.Items) == 0 {
		return errors.New("--output name: this answer has no name; use json")
	}
	for _, item := range named.Items {
		if _, err := fmt.Fprintln(out, firstOf(item.ID, item.Name)); err != nil {
			return err
		}
	}
	if len(named.Items) > 0 {
		return nil
	}
	_, err = fmt.Fprintln(out, firstOf(named.ID, named.Name))
	return err
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
