package periodic_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reelay/reelay/internal/periodic"
	"github.com/stretchr/testify/require"
)

// TestLog changes the logger of the process, so it is not parallel.
func TestLog(t *testing.T) {
	var out bytes.Buffer
	before := slog.Default()
	t.Cleanup(func() { slog.SetDefault(before) })
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	levels := func() string {
		var all []string
		for line := range strings.Lines(out.String()) {
			_, rest, _ := strings.Cut(line, "level=")
			level, _, _ := strings.Cut(rest, " ")
			all = append(all, level)
		}
		out.Reset()
		return strings.Join(all, " ")
	}
	broken := errors.New("the index is lost")

	synctest.Test(t, func(t *testing.T) {
		log := periodic.Log{Name: "index"}
		log.Note(t.Context(), broken)
		require.Contains(t, out.String(), "its next run repeats the work")
		require.Equal(t, "WARN", levels(), "it is repaired by itself")

		for range 25 {
			time.Sleep(5 * time.Second)
			log.Note(t.Context(), broken)
		}
		require.Equal(t, "WARN ERROR ERROR ERROR", levels(), "every 30 s, and an error once it lasts a minute")

		time.Sleep(5 * time.Second)
		log.Note(t.Context(), nil)
		require.Empty(t, levels(), "one success does not end it")
		time.Sleep(time.Minute)
		log.Note(t.Context(), nil)
		require.Equal(t, "INFO", levels())

		time.Sleep(time.Minute)
		log.Note(t.Context(), broken)
		require.Equal(t, "WARN", levels(), "it counts from the start again")
	})
}
