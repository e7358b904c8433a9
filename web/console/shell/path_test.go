package shell

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLocalPath(t *testing.T) {
	t.Parallel()

	for next, want := range map[string]string{
		"/jobs/job_1?events=3": "/jobs/job_1?events=3",
		"/workers":             "/workers",
		"":                     Home(),
		"/":                    Home(),
		"/login?next=/login":   Home(),
		"/logout":              Home(),
		"//evil.example":       Home(),
		"///evil.example":      Home(),
		"/\\evil.example":      Home(),
		"\\\\evil.example":     Home(),
		"/\t/evil.example":     Home(),
		"https://evil.example": Home(),
		"javascript:alert(1)":  Home(),
		"evil.example":         Home(),
		"/%zz":                 Home(),
	} {
		t.Run("Keeps"+strings.ReplaceAll(next, "/", "|"), func(t *testing.T) {
			t.Parallel()

			require.Equal(t, want, LocalPath(next))
		})
	}
}
