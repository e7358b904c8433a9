package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSubmitFallback(t *testing.T) {
	t.Parallel()
	const job = `{"submitJob": {"job": {"id": "job_1", "status": "QUEUED", "progress": {"phase": "WAITING"}}}}`
	submit := func(t *testing.T, url string, flags ...string) (int, string, string) {
		t.Helper()
		return call(t, t.Context(), append([]string{"submit", "--prompt", "fox", "--endpoint", url, "--key", "rl_x"}, flags...)...)
	}

	for name, c := range map[string]struct {
		flags []string
		sent  any
		given bool
	}{
		"none":              {nil, nil, false},
		"a list":            {[]string{"--fallback", "b,a"}, []any{"b", "a"}, true},
		"one each":          {[]string{"--fallback", "b", "--fallback", "a"}, []any{"b", "a"}, true},
		"turned off":        {[]string{"--fallback", ""}, []any{}, true},
		"1,000 names":       {[]string{"--fallback", strings.TrimSuffix(strings.Repeat("a,", 1000), ",")}, nil, true},
		"in the parameters": {[]string{"--param", `fallback=["a"]`}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, variables := answering(t, job)

			status, out, errs := submit(t, url, c.flags...)

			require.Zero(t, status, errs)
			require.Equal(t, "job_1\n", out)
			input := (*variables)["input"].(map[string]any)
			sent, given := input["fallback"]
			require.Equal(t, c.given, given, input)
			if c.sent != nil {
				require.Equal(t, c.sent, sent)
			}
		})
	}

	t.Run("ShowsWhatTheServerRefuses", func(t *testing.T) {
		t.Parallel()
		_, url := serveFaulty(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Write([]byte(`{"errors":[{"message":"fallback names sora-9. There is no model of that name.",
				"extensions":{"code":"INVALID_INPUT","field":"fallback"}}]}`))
		})

		status, out, errs := submit(t, url, "--fallback", "sora-9")

		require.NotZero(t, status)
		require.Empty(t, out)
		require.Contains(t, errs, "fallback names sora-9. There is no model of that name.")
	})
}
