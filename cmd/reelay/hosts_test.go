package main

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHosts(t *testing.T) {
	t.Parallel()

	t.Run("AreReadWithoutCaseAndPort", func(t *testing.T) {
		t.Parallel()

		read, err := readHosts(" Reelay.example. , api.internal,::1,10.0.0.1,")

		require.NoError(t, err)
		require.Equal(t, hosts{"reelay.example", "api.internal", "::1", "10.0.0.1"}, read)
		for _, wrong := range []string{"https://reelay.example", "reelay.example:443", "10.0.0.1:443", "cafe:443", ":8080", ":", "reelay.example/x", "*.example", "a b", "a@b", "-a", strings.Repeat("a", 254)} {
			_, err := readHosts("reelay.example," + wrong)
			require.ErrorContains(t, err, "is no host name", wrong)
		}
	})

	t.Run("AreAllThatIsAnswered", func(t *testing.T) {
		t.Parallel()

		page := func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "here") }
		address, _, _ := serving(t, hosts{"reelay.example"}.only("https://films.example:8443", http.HandlerFunc(page)).ServeHTTP)
		own := strings.TrimPrefix(address, "http://")

		for _, c := range []struct{ line, host, status string }{
			{"GET / HTTP/1.1", "reelay.example", "200"}, {"GET / HTTP/1.1", "REELAY.example.:8443", "200"}, {"GET / HTTP/1.1", "films.example", "200"},
			{"GET / HTTP/1.1", own, "200"}, {"GET / HTTP/1.1", "127.0.0.1", "200"},
			{"GET /healthz HTTP/1.1", "10.0.0.9:8080", "200"}, {"GET /readyz HTTP/1.1", "evil.example", "200"},
			{"GET / HTTP/1.1", "evil.example", "421"}, {"GET / HTTP/1.1", "evil.example:443", "421"}, {"GET / HTTP/1.1", "10.0.0.9", "421"},
			{"GET / HTTP/1.1", "reelay.example.evil.example", "421"}, {"GET / HTTP/1.1", "notreelay.example", "421"}, {"GET / HTTP/1.1", "", "421"},
			{"GET http://evil.example/ HTTP/1.1", "reelay.example", "421"}, {"GET //evil.example/healthz HTTP/1.1", "evil.example", "421"},
		} {
			answer := raw(t, address, c.line+"\r\nHost: "+c.host+"\r\nX-Forwarded-Host: reelay.example\r\nForwarded: host=reelay.example\r\nConnection: close\r\n\r\n")

			require.Regexp(t, "^HTTP/1.1 "+c.status+" ", answer, c)
			require.NotContains(t, answer, "evil", "nothing is made of the header")
		}
	})

	t.Run("AreAnyIfNoneIsNamed", func(t *testing.T) {
		t.Parallel()

		address, _, _ := serving(t, hosts(nil).only("https://films.example", http.NotFoundHandler()).ServeHTTP)

		require.Regexp(t, "^HTTP/1.1 404 ", raw(t, address, "GET / HTTP/1.1\r\nHost: any.example\r\nConnection: close\r\n\r\n"))
	})
}

func TestHostsSetting(t *testing.T) {
	t.Setenv("REELAY_HOSTS", "https://reelay.example")
	cfg := readConfig()

	require.ErrorContains(t, cfg.check(), `REELAY_HOSTS is "https://reelay.example": it must be host names`)

	t.Setenv("REELAY_HOSTS", "reelay.example")
	require.NoError(t, cfg.check())
	require.Equal(t, hosts{"reelay.example"}, cfg.hosts)
}
