package console

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
		"":                     home(),
		"/":                    home(),
		"/login?next=/login":   home(),
		"/logout":              home(),
		"//evil.example":       home(),
		"///evil.example":      home(),
		"/\\evil.example":      home(),
		"\\\\evil.example":     home(),
		"/\t/evil.example":     home(),
		"https://evil.example": home(),
		"javascript:alert(1)":  home(),
		"evil.example":         home(),
		"/%zz":                 home(),
	} {
		t.Run("Keeps"+strings.ReplaceAll(next, "/", "|"), func(t *testing.T) {
			t.Parallel()

			require.Equal(t, want, localPath(next))
		})
	}
}
