package servers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/reelay/reelay/features/doctor"
	"github.com/stretchr/testify/require"
)

func TestDoctor(t *testing.T) {
	t.Parallel()

	t.Run("ReportsItsFindingsByItsExitStatus", func(t *testing.T) {
		t.Parallel()

		for level, status := range map[doctor.Level]int{doctor.LevelOK: 0, doctor.LevelAdvice: 0, doctor.LevelBroken: 1, doctor.LevelUnknown: 2} {
			err := verdict([]doctor.Finding{{Level: doctor.LevelOK}, {Level: level}, {Level: doctor.LevelOK}})

			require.Equal(t, status, terminal.Report(&strings.Builder{}, err), level)
		}
		require.Equal(t, 1, terminal.Report(&strings.Builder{},
			verdict([]doctor.Finding{{Level: doctor.LevelBroken}, {Level: doctor.LevelUnknown}})))
	})

	t.Run("ShowsTheWorstLastWithoutColorInAFile", func(t *testing.T) {
		t.Parallel()

		var out strings.Builder
		found := []doctor.Finding{
			{Check: "one", Level: doctor.LevelBroken, Holds: "This.", Found: "That.", IDs: []string{"job_1"}, Count: 3, Matters: "So.",
				Fix: "Thus."},
			{Check: "two", Level: doctor.LevelOK, Holds: "Such."},
		}

		require.NoError(t, printFindings(&out, found, true))
		require.Equal(t, strings.Join([]string{
			"ok       two                 Such.",
			"broken   one                 expected: This.",
			"         Found  That.",
			"                job_1",
			"                and 2 more",
			"         Why    So.",
			"         Fix    Thus.",
			"",
			"2 checks: 1 ok, 1 broken.",
			"",
		}, "\n"), out.String())
	})

	t.Run("OnlyCountsPassedChecksByDefault", func(t *testing.T) {
		t.Parallel()

		passed := doctor.Finding{Check: "two", Level: doctor.LevelOK, Holds: "Such."}
		advice := doctor.Finding{Check: "one", Level: doctor.LevelAdvice, Holds: "This.", Found: "That."}
		for want, found := range map[string][]doctor.Finding{
			"2 checks: 2 ok. --verbose shows those that passed, too.\n":                                                                                  {passed, passed},
			"advice   one                 expected: This.\n         Found  That.\n\n3 checks: 2 ok, 1 advice. --verbose shows those that passed, too.\n": {passed, advice, passed},
		} {
			var out strings.Builder
			require.NoError(t, printFindings(&out, found, false))
			require.Equal(t, want, out.String())
		}
	})

	t.Run("FailsWithoutAStack", func(t *testing.T) {
		t.Parallel()

		for name, c := range map[string]struct{ file, says string }{
			"no stack":      {"", "start Reelay with `reelay up`"},
			"a broken file": {"{", "was not written by `reelay up`"},
			"a stopped one": {`{"databaseUrl": "postgres://reelay:hidden@127.0.0.1:1/x", "redisUrl": "redis://127.0.0.1:1", "bucket": "b"}`,
				"start it with `reelay up --data "},
			"a malformed one": {`{"databaseUrl": "postgres://reelay:hidden@[::1/x", "redisUrl": "r", "bucket": "b"}`, "malformed"},
		} {
			data := t.TempDir()
			if c.file != "" {
				require.NoError(t, os.WriteFile(filepath.Join(data, storesFile), []byte(c.file), 0o600))
			}

			var out, errs strings.Builder
			cmd := DoctorCommand()
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			cmd.SetArgs([]string{"--data", data})
			cmd.SetOut(&out)
			status := terminal.Report(&errs, cmd.ExecuteContext(t.Context()))

			require.Equal(t, 2, status, name)
			require.Empty(t, out.String(), name)
			require.Contains(t, errs.String(), c.says, name)
			require.NotContains(t, errs.String(), "hidden", name)
		}
	})
}
