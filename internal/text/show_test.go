package text_test

import (
	"testing"
	"time"

	"github.com/reelay/reelay/internal/text"
	"github.com/stretchr/testify/require"
)

func TestShow(t *testing.T) {
	t.Parallel()

	now := time.Date(2026, 11, 27, 1, 19, 38, 900e6, time.UTC)
	berlin := time.FixedZone("CET", 3600)
	for _, c := range []struct{ got, want string }{
		{text.Duration(-time.Second), "0 s"},
		{text.Duration(40 * time.Millisecond), "0 s"},
		{text.Duration(5 * time.Second), "5 s"},
		{text.Duration(1500 * time.Millisecond), "1.5 s"},
		{text.Duration(9960 * time.Millisecond), "10 s"},
		{text.Duration(59600 * time.Millisecond), "1 min 00 s"},
		{text.Duration(128 * time.Second), "2 min 08 s"},
		{text.Duration(time.Hour), "1 h 00 min"},
		{text.Duration(47 * time.Hour), "47 h 00 min"},
		{text.Duration(76 * time.Hour), "3 days 04 h"},
		{text.Seconds(0.42), "0.4 s"},
		{text.Setting(10 * time.Minute), "10 min"},
		{text.Setting(90 * time.Second), "1 min 30 s"},
		{text.Setting(90 * time.Minute), "1 h 30 min"},
		{text.Setting(36 * time.Hour), "36 h"},
		{text.Setting(48 * time.Hour), "2 days"},
		{text.Setting(0), "0 s"},
		{text.About(59 * time.Minute), "59 min"},
		{text.Since(now.Add(-time.Second), now), "just now"},
		{text.Since(now.Add(-90*time.Minute), now), "1 h ago"},
		{text.Since(now.Add(128*time.Second), now), "in 2 min 08 s"},
		{text.Since(now.Add(7*24*time.Hour), now), "in 7 days"},
		{text.Moment(now, now), "27 Nov 01:19 UTC"},
		{text.MomentToSecond(now, now), "27 Nov 01:19:38 UTC"},
		{text.MomentInFull(now, now), "27 Nov 01:19:38 UTC"},
		{text.MomentInFull(now.Truncate(time.Minute), now), "27 Nov 01:19 UTC"},
		{text.Moment(now.AddDate(-1, 0, 0), now), "27 Nov 2025 01:19 UTC"},
		{text.Moment(now.In(berlin), now), "27 Nov 02:19 CET"},
		{text.Moment(time.Date(2027, 1, 1, 0, 30, 0, 0, berlin), time.Date(2026, 12, 31, 23, 40, 0, 0, time.UTC)), "1 Jan 00:30 CET"},
	} {
		require.Equal(t, c.want, c.got)
	}
}
