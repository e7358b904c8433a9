package yamlfile_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/yamlfile"
	"github.com/stretchr/testify/require"
)

func TestScalars(t *testing.T) {
	t.Parallel()

	type shape struct {
		Prompt   *string          `json:"prompt"`
		Priority *int             `json:"priority"`
		Retry    *struct{ X int } `json:"retry"`
		Params   *json.RawMessage `json:"params"`
	}
	type Part struct {
		Title string `yaml:"title"`
	}
	type file struct {
		Part   `yaml:",inline"`
		Name   *string                `yaml:"name"`
		Names  []string               `yaml:"names"`
		Photos map[string]string      `yaml:"photos"`
		Count  *int                   `yaml:"count"`
		Ratio  *float64               `yaml:"ratio"`
		On     *bool                  `yaml:"on"`
		At     *time.Time             `yaml:"at"`
		Any    yamlfile.Document      `yaml:"any"`
		Job    yamlfile.Shaped[shape] `yaml:"job"`
	}
	read := func(text string) (in file, err error) {
		_, err = yamlfile.Read("x.yaml", "something", []byte(text), &in)
		return in, err
	}

	// What programs of YAML 1.1 or 1.2 read as another type.
	texts := []string{
		"007", "010", "08", "1.10", "1.0", "1e3", ".5", "1.", "+1", "-0", "0x1F", "0o17", "0b11", "1_000", "12:30:45", "1:20", "2026-01-02",
		"2026-01-02T03:04:05Z", "yes", "No", "on", "OFF", "y", "true", "False", "TRUE", "~", "Null", "NULL", ".inf", "-.INF", ".nan",
		"123456789012345678901234567890", "0.10000000000000000000000000000001", "1e999", "=", "1.2.3", "00", "-010", "49.99 €", "5 %",
	}

	t.Run("TextsStayAsTheyAreWritten", func(t *testing.T) {
		t.Parallel()
		for _, text := range texts {
			in, err := read(fmt.Sprintf("title: %[1]s # a remark\nname: %[1]s\r\nnames: [%[1]s, x]\nphotos: {a: %[1]s}\njob:\n  prompt: %[1]s\n",
				text))

			require.NoError(t, err, text)
			require.Equal(t, []string{text, text, text, text}, []string{in.Title, *in.Name, in.Names[0], in.Photos["a"]})
			require.JSONEq(t, fmt.Sprintf(`{"prompt": %q}`, text), string(in.Job))
		}
	})

	t.Run("KeysStayAsTheyAreWritten", func(t *testing.T) {
		t.Parallel()
		for _, key := range texts {
			in, err := read(fmt.Sprintf("photos:\n  %[1]s: a\nany:\n  %[1]s:\n    %[1]s: b\n", key))

			require.NoError(t, err, key)
			require.Equal(t, map[string]string{key: "a"}, in.Photos)
			require.JSONEq(t, fmt.Sprintf(`{%[1]q: {%[1]q: "b"}}`, key), string(in.Any))
		}
	})

	t.Run("NullIsNotGiven", func(t *testing.T) {
		t.Parallel()

		in, err := read("title: null\nname: null\ncount:\nratio: ~\non: null\nnames:\njob: {prompt: null, priority: null}\n")

		require.NoError(t, err)
		require.Equal(t, file{Job: in.Job}, in)
		require.JSONEq(t, `{"prompt": null, "priority": null}`, string(in.Job))
	})

	t.Run("NumbersAreThoseOfYAML12", func(t *testing.T) {
		t.Parallel()
		for written, value := range map[string]int{"10": 10, "+1": 1, "-5": -5, "0": 0, "-0": 0, "0x1F": 31, "0o17": 15, "1e3": 1000, "2.0": 2} {
			in, err := read("count: " + written + "\njob: {priority: " + written + "}\n")
			require.NoError(t, err, written)
			require.Equal(t, value, *in.Count)
			require.JSONEq(t, fmt.Sprintf(`{"priority": %d}`, value), string(in.Job))
		}
		for written, value := range map[string]float64{"1.10": 1.1, ".5": .5, "-.5": -.5, "1.": 1, "1e-3": .001, "+2.5E+1": 25, "7": 7} {
			in, err := read("ratio: " + written + "\n")
			require.NoError(t, err, written)
			require.InDelta(t, value, *in.Ratio, 1e-12)
		}
		for written, value := range map[string]bool{"true": true, "False": false, "TRUE": true} {
			in, err := read("on: " + written + "\n")
			require.NoError(t, err, written)
			require.Equal(t, value, *in.On)
		}
	})

	t.Run("UnknownValuesKeepTheirDigits", func(t *testing.T) {
		t.Parallel()

		in, err := read("any: [1.10, 1e3, .5, +1, -.5, 1., 0x1F, 123456789012345678901234567890, 1_000, 12:30:45, 0b11, 2026-01-02, yes, True, ~, \"007\", '1', 1e999]\n")

		require.NoError(t, err)
		require.Equal(t, `[1.10, 1e3, 0.5, 1, -0.5, 1, 31, 123456789012345678901234567890, "1_000", "12:30:45", "0b11", "2026-01-02", "yes", true, null, "007", "1", 1e999]`, string(in.Any))
		require.True(t, json.Valid(in.Any))
	})

	t.Run("RefusesWhatIsAmbiguous", func(t *testing.T) {
		t.Parallel()
		for text, says := range map[string]string{
			"title: x\ncount: 010":                `x.yaml:2: count is 010, which some programs read as octal: write 10 for the number, or "010" for a text`,
			"ratio: -007":                         `x.yaml:1: ratio is -007, which some programs read as octal: write -7 for the number`,
			"any:\n  a:\n  - {b: 08}":             `x.yaml:3: b is 08, which some programs read as octal: write 8 for the number, or "08" for a text`,
			"job: {priority: 01}":                 `x.yaml:1: priority is 01, which`,
			"count: 1_000":                        `x.yaml:1: count must be a whole number; it is "1_000"`,
			"count: 0b11":                         `x.yaml:1: count must be a whole number; it is "0b11"`,
			"count: 1.5":                          `x.yaml:1: count must be a whole number; it is "1.5"`,
			"count: \"10\"":                       `x.yaml:1: count must be a whole number; it is "10"`,
			"ratio: '1.5'":                        `x.yaml:1: ratio must be a number; it is "1.5"`,
			"count: 1:20":                         `x.yaml:1: count must be a whole number; it is "1:20"`,
			"count: 1" + "0000000000000000000000": `x.yaml:1: count must be a whole number; it is "1`,
			"ratio: 1e999":                        `x.yaml:1: ratio is 1e999: that is too large`,
			"any: .inf":                           `x.yaml:1: any is .inf: it must be a finite number`,
			"any: [.nan]":                         `x.yaml:1: any[0] is .nan: it must be a finite number`,
			"ratio: 1,5":                          `x.yaml:1: ratio must be a number; it is "1,5"`,
			"on: yes":                             `x.yaml:1: on must be true or false; it is "yes"`,
			"on: \"true\"":                        `x.yaml:1: on must be true or false; it is "true"`,
			"on: 1":                               `x.yaml:1: on must be true or false; it is "1"`,
			"title: [1.10]":                       `x.yaml:1: title must be a text; it is a list`,
		} {
			_, err := read(text)
			require.ErrorContains(t, err, says, text)
		}
	})
}

func TestEncodings(t *testing.T) {
	t.Parallel()
	read := func(text string) (string, error) {
		var in struct {
			Name string `yaml:"name"`
		}
		_, err := yamlfile.Read("x.yaml", "a name", []byte(text), &in)
		return in.Name, err
	}

	t.Run("TakesWhatEditorsWrite", func(t *testing.T) {
		t.Parallel()
		for text, name := range map[string]string{
			"\xef\xbb\xbfname: café\r\n":                "café",
			"\xef\xbb\xbf# a remark\n---\nname: x\n":    "x",
			"%YAML 1.2\n---\nname: x\n...\n":            "x",
			"---\nname: x\n---\n":                       "x",
			"name: |-\r\n  two\r\n  lines\r\n":          "two\nlines",
			"{\"name\": \"\\ud83d\\ude00 \\u00e9\\/\"}": "😀 é/",
			"name:\tx\n": "x",
		} {
			got, err := read(text)
			require.NoError(t, err, "%q", text)
			require.Equal(t, name, got)
		}
	})

	t.Run("RefusesWhatItWouldMisread", func(t *testing.T) {
		t.Parallel()
		for text, says := range map[string]string{
			"# one\nname: caf\xe9\n":              "x.yaml:2: the line is not valid UTF-8: save the file as UTF-8",
			"\xff\xfen\x00a\x00m\x00e\x00":        "x.yaml: it is in UTF-16: save the file as UTF-8",
			"\xfe\xff\x00n\x00a":                  "x.yaml: it is in UTF-16: save the file as UTF-8",
			"n\x00a\x00m\x00e\x00:\x00 \x00x\x00": "x.yaml: it is in UTF-16: save the file as UTF-8",
			"name: a\n\nb: \x00c":                 "x.yaml:3: the line has a control character",
			"name: \x1b[31m":                      "x.yaml:1: the line has a control character",
			"name: a\nx:\n\t- y":                  "x.yaml:3: the line is indented with a tab: indent it with spaces",
			"name: a: b":                          "x.yaml:1: a second colon makes no sense here: quote a text that has a colon and a space in it",
			"name: @home":                         "x.yaml:1: '@' is a reserved character at the beginning of a text: quote the text",
			"name: %d":                            "x.yaml:1: % is a reserved character at the beginning of a text: quote the text",
			"name: *bold*":                        "quote a text that begins with !, & or *",
			"name: a\n\"name\": b":                `x.yaml:2: mapping key "name" already defined`,
			"name: a\n---\nname: b":               "x.yaml: the file has 2 YAML documents: it must have one",
			"name: a\n---\n---\nname: b":          "x.yaml: the file has 2 YAML documents: it must have one",
			"name: a\n---\n# x\n---\nname: b":     "x.yaml: the file has 2 YAML documents: it must have one",
			"name: a\n...\n---\n---\nname: b":     "x.yaml: the file has 2 YAML documents: it must have one",
			"---\n---\nname: a":                   "x.yaml:2: the YAML document above this line is empty: remove one of the lines ---",
			"---\n# x\n---\nname: a":              "x.yaml:3: the YAML document above this line is empty: remove one of the lines ---",
			"name: > a fox runs":                  "x.yaml:1: > and | begin a text on the lines below: quote a text that begins with one",
			"name: | a fox\njob: {prompt: x}":     "x.yaml:1: > and | begin a text on the lines below: quote a text that begins with one",
			"name: !important":                    "x.yaml:1: anchors, aliases and tags of YAML are not supported",
			"name: * * * * *":                     "x.yaml:1: * and & are reserved characters at the beginning of a text: quote the text",
			"job:\n  prompt: * * *":               "x.yaml:2: ",
			"name: {{name}}":                      "x.yaml:1: { is a reserved character at the beginning of a text: quote the text",
			"name: \"a\" fox":                     "x.yaml:1: the value does not end here: quote the whole text",
			"name: - a":                           "x.yaml:1: a hyphen and a space begin the element of a list",
			"job: {prompt: x region: y}":          "x.yaml:1: a second colon makes no sense here: quote a text that has a colon and a space in it",
			"job: {params: {a: 1 b: 2}}":          "x.yaml:1: a second colon makes no sense here",
			"job:\n\u00a0\u00a0prompt: x":         "line 2 has a character that looks like a space or like nothing (U+00A0): replace it, if it is not within a text",
			"\u200bname: x":                       "line 1 has a character that looks like a space or like nothing (U+200B)",
			"\xef\xbb\xbf":                        "x.yaml: the file is empty: it must have a name",
			"\xef\xbb\xbfnane: x":                 `x.yaml:1: unknown field "nane"; did you mean name?`,
		} {
			_, err := read(text)
			require.ErrorContains(t, err, says, "%q", text)
		}
	})
}
