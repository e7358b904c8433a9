package regions_test

import (
	"testing"

	"github.com/reelay/reelay/models/regions"
	"github.com/stretchr/testify/require"
)

func TestStuck(t *testing.T) {
	t.Parallel()

	of := func(name, state string) regions.Standby { return regions.Standby{Name: name, State: state} }
	for setting, c := range map[string]struct {
		follow []regions.Standby
		want   string
	}{
		"": {nil, ""},
		"eu": {[]regions.Standby{of("walreceiver", "async")},
			"Commits wait for eu, and no standby of that name follows (walreceiver does): no write succeeds."},
		"us":     {nil, "Commits wait for us, and no standby follows: no write succeeds."},
		"US":     {[]regions.Standby{of("us", "sync")}, ""},
		"*":      {nil, "Commits wait for any standby, and none follows: no write succeeds."},
		" * ":    {[]regions.Standby{of("x", "sync")}, ""},
		"hidden": {[]regions.Standby{of("hidden", "")}, ""},
		"another": {[]regions.Standby{of("hidden", "")},
			"Commits wait for another, and no standby of that name follows (hidden does): no write succeeds."},
		"copied": {[]regions.Standby{of("copied", "potential")},
			"Commits wait for copied, and copied did not catch up yet: no write succeeds until then."},
		`"a ""b"", c"`: {[]regions.Standby{of(`a "b", c`, "")}, ""},
		"a, b": {[]regions.Standby{of("c", "async"), of("d", "async")},
			"Commits wait for a, b, and no standby of these names follows (c, d do): no write succeeds."},
		"ANY 1 (here, there)": {[]regions.Standby{of("there", "quorum")}, ""},
		"first 2(here, there)": {[]regions.Standby{of("there", "sync")},
			"Commits wait for first 2(here, there), and only 1 of 2 follow: no write succeeds."},
		"2 (here, there, last)": {[]regions.Standby{of("there", "sync"), of("last", "sync"), of("here", "potential")}, ""},
	} {
		s := regions.Server{Synchronous: setting, CommitsWait: true, Standbys: c.follow}
		require.Equal(t, c.want, s.Stuck(), setting)
		s.CommitsWait = false
		require.Empty(t, s.Stuck(), "synchronous_commit is local")
		s.CommitsWait, s.Standby = true, true
		require.Empty(t, s.Stuck(), "a standby commits nothing")
	}
}
