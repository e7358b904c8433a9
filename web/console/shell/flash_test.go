package shell

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDone_BoundsItsMessage(t *testing.T) {
	t.Parallel()

	long := httptest.NewRecorder()
	require.NoError(t, new(Shell).Done(long, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil), "/jobs",
		strings.Repeat("ä", maxFlash)))
	cookie := long.Result().Cookies()[0]
	message, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("ä", maxFlash/2), string(message))
}
