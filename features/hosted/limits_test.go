package hosted_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/engine"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

func TestUsualLimits(t *testing.T) {
	t.Parallel()

	t.Run("AreThoseThatReelayWasAskedFor", func(t *testing.T) {
		t.Parallel()
		for kind, want := range map[engine.Kind][2]int{
			"veo": {5, 30}, "kling": {3, 20}, "runway": {10, 60}, "luma": {8, 40}, "minimax": {4, 30},
		} {
			limits := capacity.UsualLimits(kind)
			require.Equal(t, want, [2]int{limits.Concurrent, limits.PerMinute}, kind)
		}
		require.Equal(t, 600*time.Second, capacity.SlotKept)
	})

	t.Run("AreDocumented", func(t *testing.T) {
		t.Parallel()
		text, err := os.ReadFile("../../docs/operators/provider-limits.md")
		require.NoError(t, err)
		_, table, _ := strings.Cut(string(text), "| --- | --- | --- |\n")
		table, _, _ = strings.Cut(table, "\n\n")
		documented := map[string]string{}
		for row := range strings.Lines(table) {
			cells := strings.SplitN(strings.Trim(row, "|\n "), "|", 2)
			for name := range strings.SplitSeq(cells[0], ",") {
				documented[strings.Trim(name, " `")] = strings.TrimSpace(cells[1])
			}
		}
		want := map[string]string{}
		for _, kind := range engine.Kinds {
			if kind.Hosted() != nil {
				limits := capacity.UsualLimits(kind)
				want[string(kind)] = fmt.Sprintf("%d | %d", limits.Concurrent, limits.PerMinute)
			}
		}
		require.Equal(t, want, documented)
		require.Contains(t, strings.Join(strings.Fields(string(text)), " "), fmt.Sprintf("kept for %.0f seconds", capacity.SlotKept.Seconds()))
	})
}
