package program_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/reelay/reelay/internal/program"
	"github.com/stretchr/testify/require"
)

func parse(t *testing.T, raw string) *program.Settings {
	t.Helper()
	s, problems := program.Parse(json.RawMessage(raw))
	require.Empty(t, problems)
	return s
}

func TestParse(t *testing.T) {
	t.Parallel()

	parse(t, `{"program": ["tool", "{params.a}", ["-x", "{params.b}"], "{\"json\": {}}"], "env": {"TOKEN": "{env.TOKEN}"},
		"progress": {"regexp": "(?P<step>[0-9]+)/(?P<total>[0-9]+)"}, "outputs": {"video": "out.mp4", "output": "out.json"},
		"timeoutSeconds": 1.5, "successExitCodes": [0, 3], "errors": [{"exitCode": 4, "class": "INVALID_INPUT"}], "install": "Install it."}`)

	for name, c := range map[string]struct{ raw, place, says string }{
		"nothing":                {``, "", "need a program"},
		"a shell line":           {`{"program": "tool --x"}`, ".program", "must not be a JSON string"},
		"an unknown field":       {`{"program": ["a"], "comand": 1}`, "", `no field "comand"`},
		"a program from a job":   {`{"program": ["{params.tool}"]}`, ".program[0]", "must begin with the name"},
		"an optional program":    {`{"program": [["a"]]}`, ".program[0]", "must begin with the name"},
		"an unknown placeholder": {`{"program": ["a", "{input}"]}`, ".program[1]", "{input} does not exist"},
		"a nested parameter":     {`{"program": ["a", "{params.a.b}"]}`, ".program[1]", "nested"},
		"a secret argument":      {`{"program": ["a", "{env.KEY}"]}`, ".program[1]", "in env only"},
		"an unknown output":      {`{"program": ["a", "{outputs.video}"]}`, ".program[1]", "names no file of outputs"},
		"an empty group":         {`{"program": ["a", []]}`, ".program[1]", "is empty"},
		"a variable's name":      {`{"program": ["a"], "env": {"A-B": ""}}`, ".env", "letters, digits and underscores"},
		"no kind of progress":    {`{"program": ["a"], "progress": {}}`, ".progress", "either"},
		"both kinds of progress": {`{"program": ["a"], "progress": {"regexp": "(?P<percent>.)", "jsonLines": true}}`, ".progress", "either"},
		"a broken expression":    {`{"program": ["a"], "progress": {"regexp": "("}}`, ".progress.regexp", "not a regular expression"},
		"no group":               {`{"program": ["a"], "progress": {"regexp": "([0-9]+)"}}`, ".progress.regexp", "named group percent"},
		"an unknown group":       {`{"program": ["a"], "progress": {"regexp": "(?P<pct>.)"}}`, ".progress.regexp", `"pct"`},
		"an unknown kind":        {`{"program": ["a"], "outputs": {"film": "a.mp4"}}`, ".outputs", `"film"`},
		"a folder":               {`{"program": ["a"], "outputs": {"video": "../a.mp4"}}`, ".outputs.video", "without a folder"},
		"an unknown ending":      {`{"program": ["a"], "outputs": {"video": "a.avi"}}`, ".outputs.video", "must end with .mp4 or .webm"},
		"one file twice":         {`{"program": ["a"], "outputs": {"thumbnail": "a.jpg", "spritesheet": "a.jpg"}}`, "", "is taken"},
		"a negative limit":       {`{"program": ["a"], "timeoutSeconds": -1}`, ".timeoutSeconds", "-1"},
		"no such status":         {`{"program": ["a"], "successExitCodes": [256]}`, ".successExitCodes", "256"},
		"a rule for nothing":     {`{"program": ["a"], "errors": [{"class": "TRANSIENT"}]}`, ".errors[0]", "needs regexp"},
		"an unknown class":       {`{"program": ["a"], "errors": [{"exitCode": 1, "class": "BAD"}]}`, ".errors[0]", `"BAD"`},
		"too many arguments":     {`{"program": [` + strings.Repeat(`"a",`, 200) + `"a"]}`, ".program", "201"},
	} {
		_, problems := program.Parse(json.RawMessage(c.raw))

		require.Len(t, problems, 1, name)
		require.Contains(t, problems[0].Text, c.says, name)
		if c.place != "" {
			require.Equal(t, c.place, problems[0].Place, name)
		}
	}
}

func TestCheckParams(t *testing.T) {
	t.Parallel()

	s := parse(t, `{"program": ["a", "{params.size}", "{inputs.clip}", "{params.none}"], "env": {"A": "{inputs.gone}"}}`)

	problems := s.CheckParams(func(name string) bool { return name == "size" || name == "clip" })

	require.Len(t, problems, 2)
	require.Equal(t, ".program[3]", problems[0].Place)
	require.Contains(t, problems[0].Text, "{params.none}")
	require.Contains(t, problems[1].Text, "{inputs.gone}")
}

// values are those of a job with these parameters.
func values(t *testing.T, params string) program.Values {
	t.Helper()
	v := program.Values{
		Inputs:  map[string]string{"clip": "/w/clip", "clips.0": "/w/0", "clips.1": "/w/1"},
		Outputs: map[string]string{"video": "/w/out.mp4"}, Workdir: "/w", Job: "/w/job.json", Reelay: "/bin/reelay",
		Lookup: func(name string) (string, bool) { return "secret", name == "TOKEN" },
	}
	decoder := json.NewDecoder(strings.NewReader(params))
	decoder.UseNumber()
	require.NoError(t, decoder.Decode(&v.Params))
	return v
}

func TestArguments(t *testing.T) {
	t.Parallel()

	const params = `{"text": "a b; $(x) \"", "n": -0.50, "yes": true, "list": ["x", 2], "clips": ["art_1", "art_2"],
		"option": "-rf", "options": ["a", "--b"], "object": {"a": 1}, "null": null, "zero": "a\u0000b"}`
	for name, c := range map[string]struct{ program, want, refused string }{
		"texts stay one argument":       {`"{params.text}", "x={params.text}"`, "a b; $(x) \"|x=a b; $(x) \"", ""},
		"numbers and truth values":      {`"{params.n}", "{params.yes}"`, "-0.50|true", ""},
		"a list alone":                  {`"{params.list}"`, "x|2", ""},
		"a list within a text":          {`"x={params.list}"`, "", "must stand alone"},
		"an object":                     {`"{params.object}"`, "", "is a list or an object"},
		"one input and several":         {`"{inputs.clip}", "{inputs.clips}", "{inputs.clips.1}"`, "/w/clip|/w/0|/w/1|/w/1", ""},
		"paths":                         {`"{outputs.video}", "{workdir}/x", "{job}", "{reelay}"`, "/w/out.mp4|/w/x|/w/job.json|/bin/reelay", ""},
		"other braces":                  {`"{\"a\": {}}"`, `{"a": {}}`, ""},
		"a group with all values":       {`["-n", "{params.n}"]`, "-n|-0.50", ""},
		"a group without one":           {`"a", ["-n", "{params.n}", "{params.gone}"], "b"`, "a|b", ""},
		"null has no value":             {`["-n", "{params.null}"]`, "", ""},
		"an empty prompt has no value":  {`["-p", "{prompt}"]`, "", ""},
		"a missing value":               {`"{params.gone}"`, "", "{params.gone} has no value"},
		"an option from a text":         {`"{params.option}"`, "", "begins with a hyphen"},
		"an option from a list":         {`"{params.options}"`, "", "begins with a hyphen"},
		"an option within a group":      {`["{params.option}"]`, "", "begins with a hyphen"},
		"a hyphen after an equals sign": {`"--x={params.option}"`, "--x=-rf", ""},
		"a zero byte":                   {`"x{params.zero}"`, "", "zero byte"},
	} {
		s := parse(t, `{"outputs": {"video": "out.mp4"}, "program": ["tool", `+c.program+`]}`)

		got, err := s.Arguments(values(t, params))

		if c.refused != "" {
			require.ErrorContains(t, err, c.refused, name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, c.want, strings.Join(got[1:], "|"), name)
	}
}

func TestVariables(t *testing.T) {
	t.Parallel()

	s := parse(t, `{"program": ["a"], "env": {"B": "{params.n}", "A": "x {env.TOKEN}"}}`)
	all, err := s.Variables(values(t, `{"n": 3}`))
	require.NoError(t, err)
	require.Equal(t, []string{"A=x secret", "B=3"}, all)

	s = parse(t, `{"program": ["a"], "env": {"A": "{env.NONE}"}}`)
	_, err = s.Variables(values(t, `{}`))
	require.ErrorContains(t, err, "no variable NONE")
}

// FuzzArguments checks that no text of a customer becomes an option or more than one argument.
func FuzzArguments(f *testing.F) {
	f.Add("-x")
	f.Add("{job}")
	f.Add("a b")
	f.Fuzz(func(t *testing.T, text string) {
		s, _ := program.Parse(json.RawMessage(`{"program": ["tool", "{params.text}", "--x={params.text}"]}`))
		got, err := s.Arguments(program.Values{Params: map[string]any{"text": text}})
		if err != nil {
			return
		}
		require.Equal(t, []string{"tool", text, "--x=" + text}, got)
		require.False(t, strings.HasPrefix(text, "-"))
	})
}
