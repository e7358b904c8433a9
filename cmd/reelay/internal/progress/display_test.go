package progress

import (
	"strings"
	"testing"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/stretchr/testify/require"
)

func TestBar(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		percents []float64
		want     string
	}{
		"IsEmptyAtTheStart":              {[]float64{0}, "░░░░░░░░░░"},
		"FillsWithProgress":              {[]float64{10, 40}, "████░░░░░░"},
		"IsFullAtTheEnd":                 {[]float64{100}, "██████████"},
		"MarksTheResumeAndShadesTheLoss": {[]float64{80, 50}, "█████┃▒▒░░"},
		"KeepsTheMarkAfterwards":         {[]float64{80, 50, 90}, "█████┃███░"},
		"MarksEachResume":                {[]float64{40, 20, 70, 60, 100}, "██┃███┃███"},
		"DoesNotMarkAFreshStart":         {[]float64{30, 0}, "▒▒▒░░░░░░░"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var way Trail
			for _, percent := range test.percents {
				way.add(client.Progress{Percent: percent})
			}

			got := View{width: 80}.Bar(test.percents[len(test.percents)-1], way, 10)

			require.Equal(t, test.want, got)
		})
	}
}

func TestTrail(t *testing.T) {
	t.Parallel()

	var way Trail
	for _, p := range []client.Progress{
		{Percent: 50, Phase: client.PhaseRendering}, {Percent: 50, Phase: client.PhaseResuming},
		{Percent: 50, Phase: client.PhaseResuming}, {Percent: 60, Phase: client.PhaseRendering},
	} {
		way.add(p)
	}

	require.Equal(t, []float64{50}, way.resumed, "a resume without any loss is one too, and one only")
}

func TestLine(t *testing.T) {
	t.Parallel()

	progress := client.Progress{
		Percent: 62.9, Phase: client.PhaseLoadingModel,
		Message: new("resuming from checkpoint at 62 %\x1b[2J\nnow"), EtaSeconds: new(75.2),
	}

	t.Run("ShowsPercentPhaseMessageAndTimeLeft", func(t *testing.T) {
		t.Parallel()

		line := View{width: 160}.line(progress, Trail{})

		require.True(t, strings.HasPrefix(line, " 62 % "), line)
		require.True(t, strings.HasSuffix(line, "  LOADING MODEL · resuming from checkpoint at 62 % now · 1 min 15 s left"), line)
	})
	t.Run("IsNeverWiderThanTheTerminal", func(t *testing.T) {
		t.Parallel()

		for width := 1; width < 120; width++ {
			require.LessOrEqual(t, output.Width(View{width: width}.line(progress, Trail{})), width)
		}
	})
	t.Run("HasColorOnlyWhenWanted", func(t *testing.T) {
		t.Parallel()

		require.NotContains(t, View{width: 80}.line(progress, Trail{}), "\x1b")
		require.Contains(t, View{width: 80, Color: true}.line(progress, Trail{}), green)
	})
}

func TestDisplay(t *testing.T) {
	t.Parallel()

	t.Run("PrintsOnlyChangesWithoutATerminal", func(t *testing.T) {
		t.Parallel()

		var out strings.Builder
		d := NewDisplay(&out)
		for _, percent := range []float64{1, 2, 3, 11, 19, 5} {
			d.progress(client.Progress{Percent: percent, Phase: client.PhaseRendering})
		}
		d.Transfer(1, 2)

		require.Equal(t, "  1 %  RENDERING\n 11 %  RENDERING\n  5 %  RENDERING\n", out.String())
	})
	t.Run("ShowsNoProgressOfAFailedJob", func(t *testing.T) {
		t.Parallel()

		var out strings.Builder
		d := NewDisplay(&out)
		require.NoError(t, d.Job(&client.Job{Status: client.JobStatusFailed, Progress: client.Progress{Percent: 17, Phase: client.PhaseDone}}))

		require.Empty(t, out.String())
	})
	t.Run("ReplacesItsLineOnATerminal", func(t *testing.T) {
		t.Parallel()

		var out strings.Builder
		d := &Display{out: &out, TTY: true, Width: func() int { return 40 }}
		d.progress(client.Progress{Percent: 50, Phase: client.PhaseRendering})
		d.Note("news")
		d.Keep()

		require.Regexp(t, "^\r 50 % .*RENDERING\x1b\\[K\r\x1b\\[Jnews\n$", out.String())
	})
}
