package front

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/httpguard"
	"github.com/stretchr/testify/require"
)

func TestLimitsOf(t *testing.T) {
	t.Parallel()

	for path, want := range map[string]httpguard.Limits{
		"/objects/films/x":     {Stall: 30 * time.Second, Write: 30 * time.Second},
		"/v1/videos":           {Body: 2 * time.Minute, Bodies: true},
		"/v1/videos/x/content": {Body: 2 * time.Minute, Bodies: true},
		"/api/v1/jobs":         {Bodies: true},
		"/graphql":             {},
		"/login":               {},
	} {
		require.Equal(t, want, limitsOf(httptest.NewRequest(http.MethodPost, path, nil)), path)
	}
}
