package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// requireJobs submits a file and compares what arrives, by idempotency key.
func requireJobs(t *testing.T, file string, want map[string]string, flags ...string) {
	t.Helper()
	c, args := serveCounter(t)

	status, _, errs := call(t, t.Context(), append(append(args, "--file", file, "--batch", "b"), flags...)...)

	require.Zero(t, status, errs)
	require.Len(t, c.jobs, len(want))
	for key, job := range want {
		require.JSONEq(t, job, string(c.jobs[key]))
	}
}

func TestCSVOfSpreadsheets(t *testing.T) {
	t.Parallel()

	t.Run("ATextParameterKeepsWhatItIs", func(t *testing.T) {
		t.Parallel()
		for _, cell := range []string{"7", "007", "1.10", "1e3", "TRUE", "true", "null", "[1]", "{}", "2026-01-02", "12:30", "1,5", "50%"} {
			quoted := `"` + cell + `"`
			requireJobs(t, csvFile(t, "prompt,idempotencyKey,params.style,params.other\nfox,k,"+quoted+",1\n"),
				map[string]string{"k": `{"prompt":"fox","model":"testcard","idempotencyKey":"k","metadata":{"batch":"b"},"params":{"style":"` + cell +
					`","other":1}}`})
			requireJobs(t, csvFile(t, "prompt,idempotencyKey,params.code\nfox,k,"+quoted+"\n"),
				map[string]string{"k": `{"prompt":"fox","model":"ltx","idempotencyKey":"k","metadata":{"batch":"b"},"params":{"code":"` + cell + `"}}`},
				"--model", "ltx")
			requireJobs(t, csvFile(t, "model,prompt,idempotencyKey,params.code\n best ,fox,k,"+quoted+"\n"),
				map[string]string{"k": `{"prompt":"fox","model":"best","idempotencyKey":"k","metadata":{"batch":"b"},"params":{"code":"` + cell +
					`"}}`})
		}
	})

	t.Run("ReadsBooleansSeparatorsAndEmptyColumns", func(t *testing.T) {
		t.Parallel()
		want := map[string]string{
			"a": `{"prompt":"fox; owl","model":"ltx","idempotencyKey":"a","atMostOnce":true,"metadata":{"batch":"b","flag":true},"params":{"muted":true}}`,
			"b": `{"prompt":"two\nlines","model":"ltx","idempotencyKey":"b","atMostOnce":false,"metadata":{"batch":"b","flag":false},"params":{"muted":false}}`,
		}
		header := "prompt;model;idempotencyKey;atMostOnce;params.muted;metadata.flag;;"
		rows := "\r\n\"fox; owl\";ltx;a;TRUE;TRUE;TRUE;;\r\n;;;;;;;\r\n\"two\nlines\";ltx;b;FALSE;False;False;;;;\r\n;;;;;;;\r\n"
		requireJobs(t, csvFile(t, header+rows), want)
		requireJobs(t, csvFile(t, "\ufeff"+header+rows), want)
		requireJobs(t, csvFile(t, "sep=;\r\n"+header+rows), want)
		requireJobs(t, csvFile(t, "\"sep=;\"\n"+header+rows), want)
		requireJobs(t, csvFile(t, header+strings.NewReplacer("TRUE;TRUE", "WAHR;WAHR", "FALSE;False", "FALSCH;Falsch").Replace(rows)), want)
		tabs := strings.ReplaceAll(strings.ReplaceAll(header+rows, ";", "\t"), "fox\t owl", "fox; owl")
		requireJobs(t, csvFile(t, tabs), want)
		requireJobs(t, csvFile(t, "SEP=\t\r\n"+tabs), want)
	})

	t.Run("SaysWhatIsWrongWithNumbers", func(t *testing.T) {
		t.Parallel()
		for cell, says := range map[string]string{
			"1,5":         "line 3: INVALID_INPUT: This is not a submission: params.guidance is 1,5: write numbers with a point, not a comma, such as 1.5",
			"1.234,5":     "write numbers with a point, not a comma",
			"50%":         "params.guidance is 50%: write the number alone",
			"€ 5":         "params.guidance is € 5: write the number alone",
			"'5":          "params.guidance is '5: write the number without the apostrophe",
			"1 000":       "params.guidance is 1 000: write numbers without marks between the thousands",
			"#N/A":        "params.guidance is #N/A, an error of the spreadsheet: correct the cell",
			";;1,23E+11":  "params.fps is 1,23E+11: a spreadsheet has shortened the number",
			";;;1.2E+5":   "priority is 1.2E+5: a spreadsheet has shortened the number",
			"#WERT!":      "params.guidance is #WERT!, an error of the spreadsheet",
			";#NV":        "metadata.note is #NV, an error of the spreadsheet",
			";#REF!":      "metadata.note is #REF!, an error of the spreadsheet",
			"1;x;1;2;y;z": "it has 8 cells, and the header has 7",
		} {
			_, args := serveCounter(t)
			file := csvFile(t, "sep=;\nprompt;model;params.guidance;metadata.note;params.fps;priority;\nfox;ltx;"+cell+
				strings.Repeat(";", max(0, 4-strings.Count(cell, ";")))+"\n")

			status, _, errs := call(t, t.Context(), append(args, "--file", file)...)

			require.Equal(t, 1, status, errs)
			require.Contains(t, errs, says, cell)
		}
	})
}

func TestJSONLines(t *testing.T) {
	t.Parallel()

	t.Run("TakesIndentedObjectsAndAMark", func(t *testing.T) {
		t.Parallel()
		requireJobs(t, shots(t, "\ufeff{\r\n  \"prompt\": \"a\",\r\n  \"idempotencyKey\": \"1\",\r\n  \"params\":\r\n  {\r\n    \"seed\": 7\r\n  }\r\n}\r\n"+
			"{\"prompt\":\"b\",\"idempotencyKey\":\"2\"}\n\n  {\n    \"prompt\": \"c\",\n    \"idempotencyKey\": \"3\"\n  }"), map[string]string{
			"1": `{"prompt":"a","model":"testcard","idempotencyKey":"1","metadata":{"batch":"b"},"params":{"seed":7}}`,
			"2": `{"prompt":"b","model":"testcard","idempotencyKey":"2","metadata":{"batch":"b"}}`,
			"3": `{"prompt":"c","model":"testcard","idempotencyKey":"3","metadata":{"batch":"b"}}`,
		})
	})

	t.Run("TakesNamesExactly", func(t *testing.T) {
		t.Parallel()
		for line, says := range map[string]string{
			`{"Prompt": "x"}`:                              `line 1: INVALID_INPUT: This is not a submission: a submission has no field "Prompt"; did you mean prompt?`,
			`{"prompt": "a", "Prompt": "b"}`:               `a submission has no field "Prompt"; did you mean prompt?`,
			`{"prompt": "a", "prompt": "b"}`:               `the key "prompt" occurs twice`,
			`{"prompt": "a", "retry": {"Backoff": "X"}}`:   `a submission has no field "Backoff"; did you mean backoff?`,
			`{"prompt": "a", "PARAMS": {"seed": 7}}`:       `a submission has no field "PARAMS"; did you mean params?`,
			`{"prompt": "a", "params": {"s": 1, "s": 2}}`:  `the key "params.s" occurs twice`,
			"{\n  \"Prompt\": \"x\"\n}":                    `line 1: INVALID_INPUT: This is not a submission: a submission has no field "Prompt"`,
			"\n{\"prompt\":\n\"x\"}":                       `line 2: INVALID_INPUT: This is not a submission: its JSON is incomplete: a bracket, brace or quotation mark is not closed. An object is on one line, as jq -c writes it`,
			"\n{\n\"prompt\": \"x\"":                       `line 2: INVALID_INPUT: This is not a submission: its JSON is incomplete`,
			"{\n" + strings.Repeat("\"p\": 1,\n", 100_000): "line 1: it is longer than 256 kB: a brace may not be closed",
		} {
			_, args := serveCounter(t)

			status, _, errs := call(t, t.Context(), append(args, "--file", shots(t, line))...)

			require.Equal(t, 1, status, errs)
			require.Contains(t, errs, says, line)
			require.NotContains(t, errs, "?.")
		}
	})
}

// TestJQ shows that --jq goes with --json, for every command.
func TestJQ(t *testing.T) {
	t.Parallel()

	t.Run("GoesWithJSON", func(t *testing.T) {
		t.Parallel()
		var check func(cmd *cobra.Command)
		check = func(cmd *cobra.Command) {
			if cmd.Flags().Lookup("json") != nil {
				require.NotNil(t, cmd.Flags().Lookup("jq"), cmd.CommandPath())
			}
			for _, sub := range cmd.Commands() {
				check(sub)
			}
		}
		check(rootCommand())
	})

	t.Run("IsCheckedBeforeAnythingIsDone", func(t *testing.T) {
		t.Parallel()
		for _, command := range []string{"doctor", "migrate", "keys bootstrap", "members bootstrap ana@example.com", "watch job_1",
			"simulate normal-day"} {
			status, out, errs := call(t, t.Context(), append(strings.Fields(command), "--jq", ".[")...)

			require.NotZero(t, status, command)
			require.Empty(t, out, command)
			require.Contains(t, errs, "--jq is not a jq expression", command)
		}
	})

	t.Run("PrintsAPartOfASubmission", func(t *testing.T) {
		t.Parallel()
		_, args := serveCounter(t)

		status, out, errs := call(t, t.Context(), append(args, "--prompt", "x", "--jq", ".job.id")...)

		require.Zero(t, status, errs)
		require.Equal(t, "job_1\n", out)
		status, _, errs = call(t, t.Context(), append(args, "--prompt", "x", "--jq", ".job[")...)
		require.NotZero(t, status)
		require.Contains(t, errs, "--jq is not a jq expression")
	})
}

func TestParamFlags(t *testing.T) {
	t.Parallel()

	t.Run("ATextParameterKeepsWhatItIs", func(t *testing.T) {
		t.Parallel()
		for model, param := range map[string]string{"testcard": "style", "ltx": "code", "best": "code"} {
			for _, value := range []string{"7", "1.10", "007", "true", "null", "[1]", "1e3"} {
				c, args := serveCounter(t)

				status, _, errs := call(t, t.Context(), append(args, "--prompt", "x", "--model", model, "--param", param+"="+value, "--param", "seed=7",
					"--idempotency-key", "k")...)

				require.Zero(t, status, errs)
				require.JSONEq(t, `{"prompt":"x","model":"`+model+`","idempotencyKey":"k","params":{"`+param+`":"`+value+`","seed":7}}`,
					string(c.jobs["one"]))
			}
		}
	})

	t.Run("ReadsFilesOfWindows", func(t *testing.T) {
		t.Parallel()
		folder := t.TempDir()
		write := func(name, text string) string {
			path := filepath.Join(folder, name)
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			return path
		}
		params, prompt := write("p.json", "\ufeff{\"seed\": 7}\r\n"), write("p.txt", "\ufeffa café\r\n")
		c, args := serveCounter(t)

		status, _, errs := call(t, t.Context(), append(args, "--prompt-file", prompt, "--params", "@"+params, "--idempotency-key", "k")...)

		require.Zero(t, status, errs)
		require.JSONEq(t, `{"prompt":"a café","model":"testcard","idempotencyKey":"k","params":{"seed":7}}`, string(c.jobs["one"]))
		for _, flags := range [][]string{
			{"--prompt-file", write("l.txt", "one\ncaf\xe9"), "line 2 is not valid UTF-8: save the file as UTF-8"},
			{"--prompt-file", write("u.txt", "\xff\xfea\x00"), "it is in UTF-16: save the file as UTF-8"},
			{"--prompt=x", "--params=@" + write("u.json", "\xff\xfe{\x00}\x00"), "it is in UTF-16: save the file as UTF-8"},
			{"--prompt=x", `--params={"seed": 1, "seed": 2}`, `the key "seed" occurs twice`},
			{"--prompt=x", "--param=style=caf\xe9", "style is not valid UTF-8"},
			{"--prompt=x", "--metadata=a=caf\xe9", "a is not valid UTF-8"},
		} {
			_, args := serveCounter(t)
			status, _, errs := call(t, t.Context(), append(args, flags[:2]...)...)
			require.NotZero(t, status)
			require.Contains(t, errs, flags[2])
		}
	})
}
