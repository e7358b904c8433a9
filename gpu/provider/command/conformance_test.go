package command_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/gpu/provider/command"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

// goodCloud is a program without a fault. Its machines are files of the folder machines. Bad ones
// replace one of its functions.
const goodCloud = `#!/bin/sh
mkdir -p machines
request=$(cat)
pool=$(printf %s "$request" | sed 's/.*"pool":{\([^}]*\)}.*/\1/; s/.*"name":"\([^"]*\)".*/\1/')
ids=$(printf %s "$request" | sed 's/"pool":{[^}]*}//' | grep -o '"id":"[^"]*"' | cut -d'"' -f4)
key=$(printf %s "$request" | sed 's/.*"REELAY_API_KEY":"//; t; d' | cut -d'"' -f1)
create() { >"machines/$1"; echo "{\"id\": \"$1\"}"; }
delete() { rm -f "machines/$1"; echo "{\"id\": \"$1\"}"; }
line() { echo "{\"id\": \"${1#machines/}\", \"state\": \"RUNNING\"}"; }
list() { for machine in machines/$pool-*; do [ -e "$machine" ] && line "$machine"; done; true; }
each() { for id in $ids; do $1 "$id"; done; }
check() { case $request in *reelayTest\":true*) echo "there is no option reelayTest" >&2; exit 13 ;; esac; }
unknown() { exit 14; }
%FAULT%
case $1 in
create) check; each create ;;
delete) each delete ;;
list) list ;;
*) unknown ;;
esac
`

// conformWithin runs the checks on a real cloud, which takes its time.
func conformWithin(t *testing.T, c *cloud, wait time.Duration, settings string) (*command.TestReport, error) {
	t.Helper()
	spec := c.pool.PoolSpec
	program := strings.Split(string(spec.Settings), `"`)[3]
	spec.Settings = json.RawMessage(`{"program": "` + program + `", ` + settings + `}`)
	return command.Conformance{Folder: c.folder, Machines: 2, Wait: wait, Log: slog.New(slog.DiscardHandler), Pool: spec}.Run(t.Context())
}

// conform runs the checks on a program.
func conform(t *testing.T, ctx context.Context, folder, name, settings string, found func(command.Finding)) *command.TestReport {
	t.Helper()
	report, err := command.Conformance{
		Folder: folder, Machines: 2, Wait: 300 * time.Millisecond, Log: slog.New(slog.DiscardHandler), Found: found,
		Pool: capacity.PoolSpec{Name: "mine", MachineType: "big", Settings: json.RawMessage(`{"program": "` + name + `", ` + settings + `}`)},
	}.Run(ctx)
	require.NoError(t, err)
	return report
}

// wrong returns the findings that are not OK.
func wrong(r *command.TestReport) (all []command.Finding) {
	return slices.DeleteFunc(slices.Clone(r.Findings), func(f command.Finding) bool { return f.Level == command.LevelOK })
}

func TestConformanceOfExamples(t *testing.T) {
	t.Parallel()

	for name, settings := range map[string]string{
		"docker-compose": `"options": {"service": "worker"}`, "fake-cloud": `"options": {}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := example(t, name, `{}`)
			require.NoError(t, os.Mkdir(filepath.Join(c.folder, "machines"), 0o700))
			testrun.WriteProgram(t, filepath.Join(c.folder, "agent"), "#!/bin/sh\nsleep 1000\n")

			report := conform(t, t.Context(), c.folder, name, settings, nil)

			require.Empty(t, wrong(report))
			require.True(t, report.Passed())
		})
	}

	t.Run("TheWalkthrough", func(t *testing.T) {
		t.Parallel()
		page, err := os.ReadFile("../../../docs/operators/providers.md")
		require.NoError(t, err)
		folder := t.TempDir()
		program := regexp.MustCompile("(?s)```python\n(.*?)```").FindSubmatch(page)[1]
		testrun.WriteProgram(t, filepath.Join(folder, "mycloud"), string(program))

		report := conform(t, t.Context(), folder, "mycloud", `"options": {}`, nil)

		require.True(t, report.Passed(), wrong(report))
		require.Len(t, wrong(report), 1)
		require.Equal(t, command.LevelAdvice, wrong(report)[0].Level, "it takes any option")
	})
}

func TestConformance(t *testing.T) {
	t.Parallel()

	t.Run("PassesAGoodProgram", func(t *testing.T) {
		t.Parallel()
		folder := t.TempDir()
		testrun.WriteProgram(t, filepath.Join(folder, "cloud"), strings.Replace(goodCloud, "%FAULT%", "", 1))
		var found []command.Finding

		report := conform(t, t.Context(), folder, "cloud", `"options": {"size": 1}`, func(f command.Finding) { found = append(found, f) })

		require.Empty(t, wrong(report))
		require.True(t, report.Passed())
		require.Equal(t, report.Findings, found)
		require.Empty(t, files(t, folder))
	})

	for name, bad := range map[string]struct{ fault, check, says, mend string }{
		"a list that is no JSON": {`list() { echo "no machines"; }`,
			"list", "is not the JSON object of one instance", "one line of JSON per instance"},
		"a list with a status": {`list() { echo "no route to the cloud" >&2; exit 3; }`,
			"list", "ended with the status 3: no route to the cloud", "status 0"},
		"a list without a key": {`list() { echo "the environment of control lacks CLOUD_KEY" >&2; exit 12; }`,
			"list", "lacks CLOUD_KEY", "Set the credentials and variables of the program in this shell"},
		"a list of a mistyped option": {`list() { echo "there is no option gpsu" >&2; exit 13; }`,
			"list", "no option gpsu", "Correct the options and the machine type in --file or --settings"},
		"a delete without a right": {`delete() { echo "forbidden" >&2; exit 12; }`,
			"delete-unknown", "forbidden", "Set the credentials"},
		"a list without end": {`list() { yes '{}'; }`,
			"list", "wrote more than 20000 lines or 8 MiB", "everything else to the standard error"},
		"a list that hangs": {`list() { sleep 1000; }`,
			"list", "Its list took longer than 1s, and was killed.", "do not wait until a machine has booted"},
		"a list of strangers": {`list() { echo '{"id": "web-1", "state": "RUNNING"}'; }`,
			"list", "machines that are not the pool's (1), such as web-1", "pool.name"},
		"a state of its own": {`line() { echo "{\"id\": \"${1#machines/}\", \"state\": \"UP\"}";
			}`, "create", `the state "UP"`,
			"fields of the protocol only"},
		"a field of its own": {`line() { echo "{\"id\": \"${1#machines/}\", \"state\": \"RUNNING\", \"ip\": \"::1\"}";
			}`, "create", `unknown field "ip"`,
			"fields of the protocol only"},
		"a create without answers": {`create() { >"machines/$1"; }`,
			"create", "ended without a result for this instance", "one line of JSON per instance"},
		"a create that makes nothing": {`create() { echo "{\"id\": \"$1\"}"; }`,
			"create", "its list does not have the machine", "under the id of the request"},
		"a create of one of two": {`each() { for id in $ids; do $1 "$id"; [ $1 = delete ] || break; done; }`,
			"create", "ended without a result", "one line of JSON per instance"},
		"a create that waits for boots": {`create() { sleep 1000; }`,
			"create", "Its create took longer than 1s", "do not wait until a machine has booted"},
		"words beside the answers": {`create() { >"machines/$1"; echo "{\"id\": \"$1\"}"; echo done; }`,
			"create", "is not the JSON object", "everything else to the standard error"},
		"the answer of another": {`create() { >"machines/$1"; echo "{\"id\": \"$1\"}"; echo '{"id": "x"}'; }`,
			"create", "names the instance x, which was not asked for", "one line of JSON per instance"},
		"an error without a class": {`create() { echo "{\"id\": \"$1\", \"error\": {\"message\": \"no\"}}";
			}`, "create", `an error of the class ""`,
			"fields of the protocol only"},
		"a status without words": {`create() { exit 1; }`,
			"create", "ended with the status 1", "a sentence on the standard error"},
		"the key in the log": {`create() { >"machines/$1"; echo "{\"id\": \"$1\"}"; echo "$key" >&2; }`,
			"create", "wrote the agent's key", "Do not print the request"},
		"a local time": {`
			line() { echo "{\"id\": \"${1#machines/}\", \"state\": \"RUNNING\", \"createdAt\": \"2026-01-01T12:00:00Z\"}"; }`,
			"create", "which is not now", "time zone"},
		"a repeat that fails": {`create() { if [ -e "machines/$1" ];
			then echo "{\"id\": \"$1\", \"error\": {\"class\": \"INVALID\", \"message\": \"exists\"}}"; else >"machines/$1";
			echo "{\"id\": \"$1\"}"; fi; }`,
			"repeat", "it answered INVALID: exists", "Look for a machine of the id"},
		"a repeat that doubles": {`create() { if [ -e "machines/$1" ]; then >"machines/${1}x"; fi; >"machines/$1";
			echo "{\"id\": \"$1\"}"; }`,
			"repeat", "which was not asked for", "before you create it"},
		"a repeat listed twice": {`create() { echo x >>"machines/$1"; echo "{\"id\": \"$1\"}"; };
			list() { for machine in machines/$pool-*; do [ -e "$machine" ] && while read -r x; do line "$machine"; done <"$machine";
			done; true; }`,
			"repeat", "two lines for the instance", "one line of JSON per instance"},
		"a strict reader": {`case $request in *reelayTest\":{*) echo "unknown field reelayTest" >&2; exit 1 ;; esac`,
			"unknown-fields", "unknown field reelayTest", "Ignore fields"},
		"machines of all pools": {`list() { for machine in machines/*; do [ -e "$machine" ] && line "$machine"; done; true; }`,
			"other-pool", "machines that are not the pool's (2)", "Label each machine"},
		"a delete of all": {`delete() { rm -f machines/*; echo "{\"id\": \"$1\"}"; }`,
			"delete", "its list does not have the machine", "the instances of the request only"},
		"a delete that does nothing": {`delete() { echo "{\"id\": \"$1\"}"; }`,
			"delete", "its list still has the machine", "Delete every machine that has the id"},
		"a delete of what is gone": {`delete() { rm "machines/$1" && echo "{\"id\": \"$1\"}"; }`,
			"delete-unknown", "It could not delete", "A machine that is gone, or never was, is a success"},
		"a verb that it does not know": {`unknown() { exit 0; }`,
			"unknown-verb", "status 0", "status 14"},
		"a preempt that invents": {`unknown() { [ "$verb" = preempt ] || exit 14; each echo_; }; verb=$1;
			echo_() { echo "{\"id\": \"$1\"}"; }`,
			"preempt-unknown", "does not exist", "GONE"},
		"a list that locks": {`create() { >lock; sleep 0.3; >"machines/$1"; rm lock; echo "{\"id\": \"$1\"}"; };
			list() { [ -e lock ] && { echo locked >&2; exit 1; }; for machine in machines/$pool-*;
			do [ -e "$machine" ] && line "$machine"; done; true; }`,
			"list-while-creating", "locked", "in one step"},
		"a lock that outlives a kill": {`create() { if [ -e lock ]; then echo "locked" >&2; exit 1; fi; >lock; sleep 0.2;
			>"machines/$1"; rm lock; echo "{\"id\": \"$1\"}"; }`,
			"killed-create", "locked", "where the killed create stopped"},
		"a double after a kill": {`create() { rm -f "machines/$1-"*; n=$(ls machines | grep -c "^$1");
			if [ -e "started-$1" ] && [ ! -e "done-$1" ]; then >"machines/${1}b"; fi; >"started-$1"; >"machines/$1"; sleep 0.2;
			>"done-$1"; echo "{\"id\": \"$1\"}"; }`,
			"killed-create", "which was not asked for", "before you create it"},
		"transient options": {`check() { case $request in *reelayTest\":true*) echo "no" >&2; exit 1 ;; esac; }`,
			"invalid-options", "answered TRANSIENT", "status 13"},
		"options that nobody checks": {`check() { :; }`,
			"invalid-options", "It created a machine", "Refuse options"},
		"a sold-out cloud": {`
			create() { echo "{\"id\": \"$1\", \"error\": {\"class\": \"STOCKOUT\", \"message\": \"none left\"}}"; }`,
			"create", "STOCKOUT: none left", "Try again when"},
	} {
		t.Run("Finds/"+name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			testrun.WriteProgram(t, filepath.Join(folder, "cloud"), strings.Replace(goodCloud, "%FAULT%", bad.fault, 1))

			report := conform(t, t.Context(), folder, "cloud", `"options": {}, "timeoutSeconds": 1`, nil)

			found := wrong(report)
			require.NotEmpty(t, found)
			require.Equal(t, bad.check, found[0].Check, found)
			require.Contains(t, found[0].Found, bad.says)
			require.Contains(t, found[0].Fix, bad.mend)
			require.Equal(t, found[0].Level == command.LevelAdvice, report.Passed())
			ours := strings.HasPrefix(found[0].Fix, "Set the") || strings.HasPrefix(found[0].Fix, "Correct") || strings.HasPrefix(found[0].Fix, "Try")
			require.Equal(t, ours, found[0].Level == command.LevelUntested, "the program is wrong only if its author can mend it")
			if name == "a delete that does nothing" {
				require.Len(t, report.Remaining, 2)
				require.Contains(t, report.CleanUp, "| ./cloud delete")
				return
			}
			require.Empty(t, report.Remaining)
		})
	}

	t.Run("DeletesItsMachinesWhenInterrupted", func(t *testing.T) {
		t.Parallel()
		folder := t.TempDir()
		testrun.WriteProgram(t, filepath.Join(folder, "cloud"), strings.Replace(goodCloud, "%FAULT%", "", 1))
		ctx, cancel := context.WithCancel(t.Context())

		report := conform(t, ctx, folder, "cloud", `"options": {}`, func(f command.Finding) {
			if f.Check == "create" {
				require.Len(t, files(t, folder), 2)
				cancel()
			}
		})

		require.False(t, report.Passed())
		require.Empty(t, report.Remaining)
		require.Empty(t, files(t, folder))
	})

	t.Run("RefusesSettings", func(t *testing.T) {
		t.Parallel()
		for settings, says := range map[string]string{
			`{"program": "none"}`:                                     "is not in the folder",
			`{"program": "../cloud"}`:                                 "settings.program must",
			`{"program": "a", "options": []}`:                         "settings.options must",
			`{"program": "a", "options": {}, "timeoutSeconds": 1000}`: "settings.timeoutSeconds must",
		} {
			spec := capacity.PoolSpec{Settings: json.RawMessage(settings)}
			_, err := command.Conformance{Folder: t.TempDir(), Machines: 1, Pool: spec}.Run(t.Context())
			require.ErrorContains(t, err, says)
		}
	})
}

// files returns the machines of goodCloud.
func files(t *testing.T, folder string) (names []string) {
	t.Helper()
	all, err := os.ReadDir(filepath.Join(folder, "machines"))
	require.NoError(t, err)
	for _, file := range all {
		names = append(names, file.Name())
	}
	return names
}
