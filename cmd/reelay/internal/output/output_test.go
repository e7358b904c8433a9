package output_test

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

type row struct {
	ID     string    `json:"id"`
	Status string    `json:"status"`
	At     time.Time `json:"at"`
	Prompt string    `json:"prompt"`
}

var table = output.Table[row]{
	Columns: []output.Column[row]{
		{Title: "JOB", Kind: output.ID, Value: func(r row) any { return r.ID }},
		{Title: "STATUS", Kind: output.State, Value: func(r row) any { return r.Status }},
		{Title: "CREATED", Minor: true, Value: func(r row) any { return r.At }},
		{Title: "STATUS TWICE", Wide: true, Value: func(r row) any { return r.Status + r.Status }},
		{Title: "PROMPT", Kind: output.Long, Value: func(r row) any { return r.Prompt }},
	},
	Name: func(r row) string { return r.ID },
	None: "No jobs.",
}

var rows = []row{
	{"job_01937d3e-1111-7aaa-8000-000000000001", "COMPLETED", time.Now().Add(-3 * time.Hour),
		"a lighthouse in a storm, waves break over the rocks"},
	{"job_01937d3e-2222-7bbb-8000-000000000002", "FAILED", time.Now().Add(-90 * time.Minute), "灯台 two\nlines \x1b[31mred"},
}

func TestTable(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		screen output.Screen
		want   string
	}{
		"IsCompleteInAPipe": {output.Screen{}, `
JOB                                       STATUS     CREATED  PROMPT
job_01937d3e-1111-7aaa-8000-000000000001  COMPLETED  3 h ago  a lighthouse in a storm, waves break over the rocks
job_01937d3e-2222-7bbb-8000-000000000002  FAILED     1 h ago  灯台 two lines red
`},
		"FitsATerminal": {output.Screen{Width: 60}, `
JOB                STATUS     CREATED  PROMPT
job_01937d3e-1111  COMPLETED  3 h ago  a lighthouse in a st…
job_01937d3e-2222  FAILED     1 h ago  灯台 two lines red
`},
		"MeasuresWideCharacters": {output.Screen{Width: 54}, `
JOB                STATUS     CREATED  PROMPT
job_01937d3e-1111  COMPLETED  3 h ago  a lighthouse i…
job_01937d3e-2222  FAILED     1 h ago  灯台 two lines…
`},
		"DropsMinorColumnsFirst": {output.Screen{Width: 45}, `
JOB                STATUS     PROMPT
job_01937d3e-1111  COMPLETED  a lighthouse i…
job_01937d3e-2222  FAILED     灯台 two lines…
`},
		"DropsColumnsOfATinyTerminal": {output.Screen{Width: 12}, `
JOB
job_01937d3…
job_01937d3…
`},
		"HasMoreColumnsAndWholeIDsIfWide": {output.Screen{Width: 120, Wide: true}, `
JOB                                       STATUS     CREATED  STATUS TWICE        PROMPT
job_01937d3e-1111-7aaa-8000-000000000001  COMPLETED  3 h ago  COMPLETEDCOMPLETED  a lighthouse in a storm, waves break …
job_01937d3e-2222-7bbb-8000-000000000002  FAILED     1 h ago  FAILEDFAILED        灯台 two lines red
`},
		"ColoursStates": {output.Screen{Width: 60, Color: true}, "\n" +
			"\x1b[1mJOB\x1b[0m                \x1b[1mSTATUS\x1b[0m     \x1b[1mCREATED\x1b[0m  \x1b[1mPROMPT\x1b[0m\n" +
			"job_01937d3e-1111  \x1b[32mCOMPLETED\x1b[0m  3 h ago  a lighthouse in a st…\n" +
			"job_01937d3e-2222  \x1b[31mFAILED\x1b[0m     1 h ago  灯台 two lines red\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			c.screen.Writer = &out

			require.NoError(t, table.Write(&c.screen, rows))

			require.Equal(t, c.want, "\n"+out.String())
			for line := range strings.SplitSeq(out.String(), "\n") {
				if c.screen.Width > 0 && !c.screen.Color {
					require.LessOrEqual(t, output.Width(line), c.screen.Width)
				}
			}
		})
	}

	t.Run("ShowsIDsAsFarAsTheyDiffer", func(t *testing.T) {
		t.Parallel()
		var out strings.Builder
		twins := []row{{ID: "job_01937d3e-1111-7aaa-8000-000000000001"}, {ID: "job_01937d3e-1111-7aab-8000-000000000001"}, {ID: "none"}}

		require.NoError(t, table.Write(&output.Screen{Writer: &out, Width: 80}, twins))

		require.Contains(t, out.String(), "\njob_01937d3e-1111-7aaa ")
		require.Contains(t, out.String(), "\njob_01937d3e-1111-7aab ")
		require.Contains(t, out.String(), "\nnone ")
	})

	t.Run("ShowsDates", func(t *testing.T) {
		t.Parallel()
		var out strings.Builder

		require.NoError(t, table.Write(&output.Screen{Writer: &out, Absolute: true}, rows))

		require.Contains(t, out.String(), output.Moment(rows[0].At))
	})
}

func TestOptions(t *testing.T) {
	t.Parallel()

	show := func(t *testing.T, list output.List[row], args ...string) (out, remarks string, err error) {
		t.Helper()
		var o output.Options
		var stdout, stderr strings.Builder
		cmd := &cobra.Command{SilenceErrors: true, SilenceUsage: true, RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Check(); err != nil {
				return err
			}
			return output.Show(&o, o.Screen(cmd, &stdout), &stderr, &table, &list, list)
		}}
		o.AddFlags(cmd)
		cmd.SetArgs(args)
		err = cmd.Execute()
		return stdout.String(), stderr.String(), err
	}
	one := output.All(rows[:1])

	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"JSON":         {[]string{"--json"}, "\"items\": [\n    {\n      \"id\": \"job_01937d3e-1111-7aaa-8000-000000000001\",\n"},
		"JSON by name": {[]string{"-o", "JSON"}, "\"hasNextPage\": false,\n  \"endCursor\": null\n}\n"},
		"YAML": {[]string{"--output", "yaml"},
			"items:\n- id: job_01937d3e-1111-7aaa-8000-000000000001\n  status: COMPLETED\n"},
		"names":                      {[]string{"-o", "name"}, "job_01937d3e-1111-7aaa-8000-000000000001\n"},
		"jq prints strings bare":     {[]string{"--jq", ".items[].status"}, "COMPLETED\n"},
		"jq prints all else as JSON": {[]string{"--jq", ".items[] | {status, n: 1}"}, `{"n":1,"status":"COMPLETED"}` + "\n"},
		"jq with --json":             {[]string{"--json", "--jq", ".items | length"}, "1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			out, _, err := show(t, one, c.args...)

			require.NoError(t, err)
			require.Contains(t, out, c.want)
		})
	}

	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"format":        {[]string{"-o", "xml"}, `--output is "xml": it must be table, wide, json, yaml or name`},
		"jq syntax":     {[]string{"--jq", ".items[}"}, "--jq is not a jq expression"},
		"jq type":       {[]string{"--jq", ".items.id"}, "--jq: expected an object but got: array"},
		"two formats":   {[]string{"--json", "-o", "yaml"}, "use one of them"},
		"jq of a table": {[]string{"--jq", ".", "-o", "wide"}, "use one of them"},
	} {
		t.Run("Refuses "+name, func(t *testing.T) {
			t.Parallel()

			out, _, err := show(t, one, c.args...)

			require.ErrorContains(t, err, c.want)
			require.Empty(t, out)
		})
	}

	t.Run("SaysThatAListIsEmpty", func(t *testing.T) {
		t.Parallel()

		out, remarks, err := show(t, output.All[row](nil))

		require.NoError(t, err)
		require.Empty(t, out)
		require.Equal(t, "No jobs.\n", remarks)
		out, _, err = show(t, output.All[row](nil), "--json")
		require.NoError(t, err)
		require.JSONEq(t, `{"items": [], "hasNextPage": false, "endCursor": null}`, out)
	})

	t.Run("SaysHowToShowTheNextPage", func(t *testing.T) {
		t.Parallel()
		page := one
		page.HasNextPage, page.EndCursor, page.TotalCount = true, new("c1"), new(10_001)

		_, remarks, err := show(t, page)

		require.NoError(t, err)
		require.Equal(t, "1 of more than 10000; next page: --after c1\n", remarks)
	})

	t.Run("NamesASingleAnswer", func(t *testing.T) {
		t.Parallel()
		var o output.Options
		var out strings.Builder
		cmd := &cobra.Command{}
		o.AddFlags(cmd)
		require.NoError(t, cmd.ParseFlags([]string{"-o", "name"}))
		require.NoError(t, o.Check())

		require.NoError(t, o.Print(o.Screen(cmd, &out), rows[0], nil))

		require.Equal(t, rows[0].ID+"\n", out.String())
		require.ErrorContains(t, o.Print(o.Screen(cmd, io.Discard), map[string]int{"a": 1}, nil), "has no name")
	})
}

func TestStateColor(t *testing.T) {
	t.Parallel()

	for state, want := range map[string]output.Color{
		"RUNNING": output.Cyan, "COMPLETED, deleted": output.Dim, "paused by night shift 2 h ago": output.Yellow,
		"IDLE, in quarantine": output.Green, "unheard of": "", "": "",
	} {
		require.Equal(t, want, output.StateColor(state), state)
	}
}
