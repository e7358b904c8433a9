package models

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A column that a row's JSON names otherwise, or not at all, is lost without an error.
func TestRows_HaveTheNamesOfColumnsInJSON(t *testing.T) {
	t.Parallel()

	for _, row := range []any{Job{}, Worker{}, Attempt{}, JobEvent{}, SealedPrompt{}, Artifact{}, IssuedUpload{}} {
		names := 0
		for _, field := range reflect.VisibleFields(reflect.TypeOf(row)) {
			if field.Anonymous {
				continue
			}
			column, _, _ := strings.Cut(field.Tag.Get("bun"), ",")
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			require.NotEmpty(t, column, "%T.%s", row, field.Name)
			require.Equal(t, column, name, "%T.%s", row, field.Name)
			names++
		}
		require.NotZero(t, names)
	}
}

// recordColumns matches an argument with the columns that a statement reads from it.
var recordColumns = regexp.MustCompile(`to_recordset\(@(\w+)\)\s+AS\s+\w+\s+\(([^)]*)\)`)

func TestStatements_ReadWhatTheirArgumentsHold(t *testing.T) {
	t.Parallel()

	// Each argument, with the names in JSON that are added to a row's, and those that the statement does
	// not read. TestWrites checks the columns of changed rows.
	const changed = "*"
	arguments := map[string]struct {
		of    any
		added string
		left  string
	}{
		"claim_passes.sql passes":  {askedPass{}, "", ""},
		"extend_leases.sql beats":  {LeaseBeat{}, "", "progress_at preview_id"},
		"insert_jobs.sql accounts": {ExpectedAccount{}, "", ""},
		"insert_jobs.sql jobs":     {NewJob{}, "", ""},
		"lock_leases.sql holds":    {Fence{}, "", ""},
		"lock_picks.sql picks":     {Pick{}, "place", ""},
		"next_heads.sql queues":    {Queue{}, "place", ""},
		"touch_workers.sql signs":  {Touch{}, "", ""},
		"write.sql workers":        {Worker{}, "was", changed},
		"write.sql attempts":       {Attempt{}, "", changed},
		"write.sql jobs":           {Job{}, "was", changed},
		"write.sql begun": {Attempt{}, "",
			`last_heartbeat_at started_at ended_at resumed_from_step checkpoint_id checkpoint_at log_id failure_class
			failure_reason error_detail counted uploads gpu_seconds wasted_gpu_seconds yield_requested_at yield_to`},
		"write.sql events":   {JobEvent{}, "", ""},
		"write.sql accounts": {AccountCount{}, "", ""},
		"write.sql left":     {LineCount{}, "", ""},
	}
	files, err := filepath.Glob("sql/*.sql")
	require.NoError(t, err)
	beside, err := filepath.Glob("*/sql/*.sql")
	require.NoError(t, err)
	for _, path := range append(files, beside...) {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		file := filepath.Base(path)
		require.Equal(t, strings.Count(string(text), "to_recordset(@"), len(recordColumns.FindAllString(string(text), -1)), file)
		for _, found := range recordColumns.FindAllStringSubmatch(string(text), -1) {
			name := file + " " + found[1]
			argument, known := arguments[name]
			require.True(t, known, "what is %s?", name)
			delete(arguments, name)
			var columns []string
			for column := range strings.SplitSeq(found[2], ",") {
				columns = append(columns, strings.Trim(strings.Fields(column)[0], `"`))
			}
			held := append(namesInJSON(reflect.TypeOf(argument.of)), strings.Fields(argument.added)...)
			require.Subset(t, held, columns, name)
			if argument.left != changed {
				left := slices.DeleteFunc(held, func(name string) bool { return slices.Contains(columns, name) })
				require.ElementsMatch(t, strings.Fields(argument.left), left, "%s does not read these", name)
			}
		}
	}
	require.Empty(t, arguments)
}

// namesInJSON returns the names of a struct's fields in JSON.
func namesInJSON(of reflect.Type) (names []string) {
	for i := range of.NumField() {
		field := of.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		inner := field.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case field.Anonymous && name == "":
			names = append(names, namesInJSON(inner)...)
		case name != "" && name != "-":
			names = append(names, name)
		}
	}
	return names
}

func TestInsertJobs_WritesEachColumnOfTheRequest(t *testing.T) {
	t.Parallel()

	text, err := os.ReadFile("sql/insert_jobs.sql")
	require.NoError(t, err)
	_, columns, _ := strings.Cut(string(text), "INSERT INTO jobs (")
	columns, _, _ = strings.Cut(columns, ")")
	written := strings.FieldsFunc(columns, func(r rune) bool { return strings.ContainsRune(", \n", r) })
	// The course of the job sets these, and their columns have defaults.
	later := strings.Fields(`run requeued queue_order preemptions attempt_no failures crashes gpu_rank avoid_worker_id avoid_until current_attempt_id handle
		result_id output failure_class failure_reason wasted_gpu_seconds cancel_by cancel_reason cancel_requested_at cancel_delivered_at cancel_stopped_at
		percent phase progress_message step total_steps frame total_frames eta_seconds progress_at preview_id progress_event_at progress_event_percent
		waited_seconds queued_seconds leased_seconds paused_seconds backoff_seconds delayed_seconds delayed_at
		leased_at started_at completed_at deleted_at kept_until reused_from routes`)
	for _, name := range namesInJSON(reflect.TypeFor[Job]()) {
		assert.NotEqual(t, slices.Contains(later, name), slices.Contains(written, name), name)
	}
}
