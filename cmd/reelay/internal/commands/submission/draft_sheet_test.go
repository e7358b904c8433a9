package submission

import (
	"image"
	"strings"
	"testing"

	"github.com/reelay/reelay/client"
	"github.com/stretchr/testify/require"
)

func TestContactSheet(t *testing.T) {
	t.Parallel()

	const cell = takeWidth + takeGap
	for name, test := range map[string]struct {
		takes         int
		size          image.Point
		width, height int
	}{
		"OneLandscape":     {1, image.Pt(1920, 1080), takeGap + cell, 2*takeGap + 180 + takeLabel},
		"FourInTwoRows":    {4, image.Pt(1920, 1080), takeGap + 2*cell, takeGap + 2*(180+takeLabel+takeGap)},
		"EightInTwoRows":   {8, image.Pt(640, 360), takeGap + 4*cell, takeGap + 2*(180+takeLabel+takeGap)},
		"PortraitsFit":     {2, image.Pt(1080, 1920), takeGap + 2*cell, 2*takeGap + 568 + takeLabel},
		"NarrowOnesShrink": {1, image.Pt(10, 1000), takeGap + cell, 2*takeGap + 2*takeWidth + takeLabel},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			takes := make([]take, test.takes)
			for i := range takes {
				takes[i] = take{"1  seed 7", image.NewGray(image.Rectangle{Max: test.size})}
			}

			require.Equal(t, image.Pt(test.width, test.height), contactSheet(takes).Bounds().Size())
		})
	}
}

func TestShownTakes(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	shown := shownTakes{Takes: "tak_1", Sheet: "sheet.png", Drafts: []client.Job{
		{Id: "job_1", Status: client.JobStatusFailed, Params: []byte(`{"seed": 7}`)},
		{Id: "job_2", Status: client.JobStatusCompleted, Params: []byte(`{"seed": 9007199254740993}`)},
		{Id: "job_3", Status: client.JobStatusCompleted, Params: []byte(`{}`),
			Draft: &client.Draft{ContinuedBy: &client.ContinuedBy{Id: "job_4"}}},
	}}

	require.NoError(t, shown.print(&out))

	require.Equal(t, `  1  job_1  seed 7  FAILED
  2  job_2  seed 9007199254740993  COMPLETED
  3  job_3  seed ?  continued by job_4

Contact sheet: sheet.png
Make the video of one: reelay continue job_2 --output video.mp4
`, out.String())
	require.ErrorContains(t, failedTakes(shown.Drafts), "job_1 failed")
}
