package urlkey_test

import (
	"net/url"
	"testing"

	"github.com/reelay/reelay/internal/urlkey"
	"github.com/stretchr/testify/require"
)

func TestIsIn(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]bool{
		"": false, "query=%7Bviewer%7Brole%7D%7D": false, "variables=%7B%22id%22%3A%22rl_x%22%7D": false, "status=QUEUED&first=5": false,
		"access_token=x": true, "Authorization=Bearer+x": true, "key": true, "x=rl_live_1": true, "x=rlw_1": true, "x=1&x=rl_1": true,
	} {
		query, err := url.ParseQuery(raw)
		require.NoError(t, err)
		require.Equal(t, want, urlkey.IsIn(query), raw)
	}
}
