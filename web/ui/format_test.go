package ui

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFormat(t *testing.T) {
	t.Parallel()

	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	half := 0.5
	for _, c := range []struct{ got, want string }{
		{Since(time.Time{}, now), "n/a"},
		{Since(now.Add(-time.Second), now), "just now"},
		{Since(now.Add(-59*time.Second), now), "59 s ago"},
		{Since(now.Add(-90*time.Minute), now), "1 h ago"},
		{Since(now.Add(-72*time.Hour), now), "3 days ago"},
		{Since(now.Add(5*time.Second), now), "in 5 s"},
		{Since(now.Add(47*time.Hour), now), "in 47 h 00 min"},
		{Since(now.Add(7*24*time.Hour), now), "in 7 days"},
		{Duration(1500 * time.Millisecond), "1.5 s"},
		{Duration(61 * time.Second), "1 min 01 s"},
		{Duration(3*time.Hour + 5*time.Minute), "3 h 05 min"},
		{Duration(-time.Second), "n/a"},
		{Seconds(nil), "n/a"},
		{Seconds(&half), "0.5 s"},
		{Between(now, time.Time{}), "n/a"},
		{Bytes(999), "999 B"},
		{Bytes(999_999), "1.0 MB"},
		{Bytes(64 << 30), "68.7 GB"},
		{Count(1234567, 0), "1\u202f234\u202f567"},
		{Count(10_001, 10_000), "10\u202f000+"},
		{Short("job_01a1fd6a-4f1f-7949-a125-f137b7957b73"), "job…b7957b73"},
		{Short("odd"), "odd"},
		{Clip("a\n b  c", 10), "a b c"},
		{Clip("äöüß", 3), "äö…"},
		{Upright("a \u202egnp.exe\u202c b\u2067c"), "a [U+202E]gnp.exe[U+202C] b[U+2067]c"},
		{Upright("שלום مرحبا\u200f!"), "שלום مرحبا\u200f!"},
	} {
		require.Equal(t, c.want, c.got)
	}
}

func TestBreaks(t *testing.T) {
	t.Parallel()

	for text, want := range map[string][]string{
		"":                                   nil,
		"one":                                {"one"},
		"up to 30 s, 1.5":                    {"up to 30 s, 1.5"},
		"Europe/Berlin":                      {"Europe/", "Berlin"},
		"https://hooks.example.com/bad/acme": {"https://", "hooks.", "example.", "com/", "bad/", "acme"},
		"local-faa976c8":                     {"local-faa976c8"},
		"see http://127.0.0.1:38657/hook/ok": {"see http://", "127.0.", "0.1:38657/", "hook/", "ok"},
		"abcdefghijklmnopqrstuvwxyz":         {"abcdefghijklmnopqrst", "uvwxyz"},
	} {
		require.Equal(t, want, breaks(text), text)
		require.Equal(t, text, strings.Join(breaks(text), ""))
	}
}
