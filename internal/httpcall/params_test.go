package httpcall_test

import (
	"encoding/json"
	"testing"

	"github.com/reelay/reelay/internal/httpcall"
	"github.com/reelay/reelay/internal/outbound"
	"github.com/stretchr/testify/require"
)

// The values of other jobs' outputs replace placeholders after the submit has checked the URL.
func TestAddressOfAFilledURL(t *testing.T) {
	t.Parallel()

	for _, value := range []string{
		"@127.0.0.1", "//127.0.0.1/", "/\\127.0.0.1", "..//@127.0.0.1:80", "?x#@127.0.0.1", "\r\nHost: 127.0.0.1", "%2f%2f127.0.0.1",
		":80@127.0.0.1/", "http://127.0.0.1/", "",
	} {
		raw, err := json.Marshal(map[string]string{"url": "https://example.com/a/" + value + "?q=" + value})
		require.NoError(t, err)
		p, err := httpcall.Read(raw)
		require.NoError(t, err)

		to, err := p.Address(outbound.Policy{})

		if err == nil {
			require.Equal(t, "https example.com", to.Scheme+" "+to.Host, value)
		}
	}
}
