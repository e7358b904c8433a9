package scalar_test

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/reelay/reelay/graph/scalar"
	"github.com/stretchr/testify/require"
)

func written(m graphql.Marshaler) string {
	var b bytes.Buffer
	m.MarshalGQL(&b)
	return b.String()
}

func TestTime(t *testing.T) {
	t.Parallel()

	t.Run("IsFormattedInUTC", func(t *testing.T) {
		t.Parallel()

		at := time.Date(2026, 1, 31, 12, 0, 0, 5000, time.FixedZone("", 3600))

		require.Equal(t, `"2026-01-31T11:00:00.000005Z"`, written(scalar.MarshalTime(at)))
		require.Equal(t, "null", written(scalar.MarshalTime(time.Time{})))
	})

	t.Run("AcceptsAnyOffset", func(t *testing.T) {
		t.Parallel()

		got, err := scalar.UnmarshalTime("2026-01-31T12:00:00+01:00")

		require.NoError(t, err)
		require.Equal(t, time.Date(2026, 1, 31, 11, 0, 0, 0, time.UTC), got)
	})

	t.Run("RefusesInvalidTimes", func(t *testing.T) {
		t.Parallel()

		for _, value := range []any{"yesterday", "2026-01-31", "", "2026-01-31T12:00:00+24:00", "2026-01-31T12:00:00,5Z", "2026-01-31T9:00:00Z",
			"2026-01-31T12:00:00", int64(5), true} {
			_, err := scalar.UnmarshalTime(value)
			require.ErrorContains(t, err, "This must be ", "%v", value)
		}
	})
}

func TestInt64(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		in   any
		want int64
		out  string
	}{
		{json.Number("0"), 0, "0"},
		{json.Number("9007199254740991"), 1<<53 - 1, "9007199254740991"},
		{json.Number("9007199254740992"), 1 << 53, `"9007199254740992"`},
		{"9223372036854775807", 1<<63 - 1, `"9223372036854775807"`},
		{"-9223372036854775808", -1 << 63, `"-9223372036854775808"`},
		{int64(12), 12, "12"},
	} {
		got, err := scalar.UnmarshalInt64(c.in)
		require.NoError(t, err)
		require.Equal(t, c.want, got)
		require.Equal(t, c.out, written(scalar.MarshalInt64(got)))
	}
	for _, value := range []any{"9223372036854775808", json.Number("1.5"), "x", "", 1.5, true} {
		_, err := scalar.UnmarshalInt64(value)
		require.ErrorContains(t, err, "This must be ", "%v", value)
	}
}

func TestInt(t *testing.T) {
	t.Parallel()

	for _, value := range []any{json.Number("2147483647"), int64(-2147483648), 7} {
		_, err := scalar.UnmarshalInt(value)
		require.NoError(t, err)
	}
	for _, value := range []any{json.Number("2147483648"), int64(-2147483649), json.Number("1.5"), "7", 1.5} {
		_, err := scalar.UnmarshalInt(value)
		require.ErrorContains(t, err, "This must be ", "%v", value)
	}
}

func TestFloat(t *testing.T) {
	t.Parallel()

	for _, value := range []any{json.Number("1e308"), 1.5, int64(3)} {
		_, err := scalar.UnmarshalFloat(value)
		require.NoError(t, err)
	}
	for _, value := range []any{json.Number("1e400"), "NaN", "Infinity", true} {
		_, err := scalar.UnmarshalFloat(value)
		require.ErrorContains(t, err, "This must be ", "%v", value)
	}
	require.Equal(t, "1.5", written(scalar.MarshalFloat(1.5)))
	for _, value := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		require.Equal(t, graphql.Null, scalar.MarshalFloat(value), "a field that must be there fails")
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()

	got, err := scalar.UnmarshalJSON(map[string]any{"seed": json.Number("9007199254740993"), "x": []any{json.Number("1.10"), nil}})

	require.NoError(t, err)
	require.Equal(t, `{"seed":9007199254740993,"x":[1.10,null]}`, string(got), "numbers stay as they were written")
	require.Equal(t, `{"seed":9007199254740993,"x":[1.10,null]}`, written(scalar.MarshalJSON(got)))
	require.Equal(t, "null", written(scalar.MarshalJSON(nil)))
}
