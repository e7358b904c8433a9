package hosted

import (
	"testing"
	"time"

	"github.com/reelay/reelay/internal/provider"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

// account is one with limits that tests exceed quickly.
func account() *capacity.ProviderAccount {
	return &capacity.ProviderAccount{ProviderLimits: capacity.ProviderLimits{Concurrent: 5, PerMinute: 10}}
}

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func TestEnter(t *testing.T) {
	t.Parallel()

	t.Run("AllowsNoMoreCallsInAnyMinuteThanTheLimit", func(t *testing.T) {
		t.Parallel()
		a, now := account(), noon
		var made []time.Time
		for range 2000 {
			if turn := enter(now, a, UseSubmit); turn.WaitSeconds == 0 {
				made = append(made, now)
			} else {
				now = now.Add(time.Duration(turn.WaitSeconds * float64(time.Second)))
			}
		}
		for i := range made {
			in := 0
			for _, at := range made[i:] {
				if at.Sub(made[i]) < time.Minute {
					in++
				}
			}
			require.LessOrEqual(t, in, 10)
		}
		require.Greater(t, len(made), 1000)
	})

	t.Run("LeavesPollsAShareSoThatASubmitNeedNotWait", func(t *testing.T) {
		t.Parallel()
		a := account()
		for range 8 {
			require.Zero(t, enter(noon, a, UsePoll).WaitSeconds)
		}
		require.Positive(t, enter(noon, a, UsePoll).WaitSeconds)
		require.Zero(t, enter(noon, a, UseSubmit).WaitSeconds)
		require.Zero(t, enter(noon, a, UseSubmit).WaitSeconds)
		turn := enter(noon, a, UseSubmit)
		require.Positive(t, turn.WaitSeconds)
		require.Contains(t, turn.Reason, "10 calls in a minute")
	})

	t.Run("PausesForAllAsLongAsTheProviderAsks", func(t *testing.T) {
		t.Parallel()
		a := account()
		tell(noon, a, Outcome{Means: string(provider.Limited), Status: 429, Text: "slow down", RetryAfterSeconds: 20})
		turn := enter(noon.Add(5*time.Second), a, UseSubmit)
		require.InDelta(t, 15, turn.WaitSeconds, 0.1)
		require.Contains(t, turn.Reason, "slow down")
		tell(noon.Add(time.Second), a, Outcome{Means: string(provider.Limited), RetryAfterSeconds: 3})
		require.InDelta(t, 15, enter(noon.Add(5*time.Second), a, UsePoll).WaitSeconds, 0.1, "a shorter wait does not end a longer one")
		require.Zero(t, enter(noon.Add(21*time.Second), a, UseSubmit).WaitSeconds)
	})

	t.Run("OpensTheCircuitAfterFiveFailuresAndTriesWithOneCall", func(t *testing.T) {
		t.Parallel()
		a := account()
		for range 4 {
			tell(noon, a, Outcome{Means: string(provider.Passing), Status: 503, Text: "down"})
			require.Zero(t, enter(noon, a, UsePoll).WaitSeconds)
		}
		tell(noon, a, Outcome{Means: string(provider.Passing), Status: 503, Text: "down"})
		require.Contains(t, enter(noon, a, UseSubmit).Reason, "circuit is open")
		later := noon.Add(16 * time.Second)
		turn := enter(later, a, UsePoll)
		require.Zero(t, turn.WaitSeconds)
		require.True(t, turn.Tell)
		require.Positive(t, enter(later, a, UseSubmit).WaitSeconds, "one call tries, the others wait for it")
		tell(later, a, Outcome{Means: string(provider.Passing), Status: 503})
		require.InDelta(t, 30, enter(later, a, UseSubmit).WaitSeconds, 0.1, "the next wait is twice as long")
		tell(later, a, Outcome{})
		require.Zero(t, enter(later, a, UseSubmit).WaitSeconds)
		require.Zero(t, a.Failures)
	})

	t.Run("OpensAtOnceWhenTheKeyIsRefused", func(t *testing.T) {
		t.Parallel()
		a := account()
		tell(noon, a, Outcome{Means: string(provider.KeyRefused), Status: 401, Code: "1002", Text: "no such key"})
		require.Contains(t, enter(noon, a, UsePoll).Reason, "1002: no such key")
	})

	t.Run("LetsErrorsOfJobsPass", func(t *testing.T) {
		t.Parallel()
		a := account()
		for range 20 {
			tell(noon, a, Outcome{Means: string(provider.Refused), Status: 400})
		}
		require.Zero(t, enter(noon, a, UseSubmit).WaitSeconds)
	})
}

func TestParseLimits(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"providers: {runway: {concurrent: -1}}":                      "concurrent must be from 0",
		"providers: {runway: {perMinute: 0}}":                        "perMinute must be from 1",
		"providers: {runway: {onUnknownSubmit: maybe}}":              "it must be wait, give-up or pay-again",
		"providers: {runway: {unknownSubmitHours: .nan}}":            "",
		"providers: {runway: {unknownSubmitHours: -3}}":              "unknownSubmitHours must be over 0",
		"providers: {Run Way: {concurrent: 1}}":                      "is no name of a pool",
		"providers: {runway: }":                                      "runway is empty",
		"providers: {runway: {concurent: 5}}":                        "concurent",
		"limits: {}":                                                 "limits",
		"providers: {runway: {concurrent: 99999999999999999999999}}": "",
	} {
		_, err := parseLimits("providers.yaml", []byte(text))
		require.ErrorContains(t, err, want, text)
	}
	read, err := parseLimits("providers.yaml", []byte("providers: {runway: {concurrent: 3}, other: {perMinute: 7, onUnknownSubmit: give-up, unknownSubmitHours: 0.5}}"))
	require.NoError(t, err)
	require.Equal(t, 3, *read["runway"].Concurrent)
	require.Equal(t, "give-up", read["other"].OnUnknownSubmit)
}
