package front

import (
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHosts(t *testing.T) {
	t.Parallel()

	t.Run("IgnoreCaseAndPort", func(t *testing.T) {
		t.Parallel()

		read, err := ReadHosts(" Reelay.example. , api.internal,::1,10.0.0.1,")

		require.NoError(t, err)
		require.Equal(t, Hosts{"reelay.example", "api.internal", "::1", "10.0.0.1"}, read)
		for _, wrong := range []string{"https://reelay.example", "reelay.example:443", "10.0.0.1:443", "cafe:443", ":8080", ":",
			"reelay.example/x", "*.example", "a b", "a@b", "-a", strings.Repeat("a", 254)} {
			_, err := ReadHosts("reelay.example," + wrong)
			require.ErrorContains(t, err, "is not a host name", wrong)
		}
	})

	t.Run("AreTheOnlyOnesAnswered", func(t *testing.T) {
		t.Parallel()

		page := func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "here") }
		address, _, _ := serving(t, Hosts{"reelay.example"}.Only("https://films.example:8443", http.HandlerFunc(page)).ServeHTTP)
		own := strings.TrimPrefix(address, "http://")

		for _, c := range []struct{ line, host, status string }{
			{"GET / HTTP/1.1", "reelay.example", "200"}, {"GET / HTTP/1.1", "REELAY.example.:8443", "200"},
			{"GET / HTTP/1.1", "films.example", "200"},
			{"GET / HTTP/1.1", own, "200"}, {"GET / HTTP/1.1", "127.0.0.1", "200"},
			{"GET /healthz HTTP/1.1", "10.0.0.9:8080", "200"}, {"GET /readyz HTTP/1.1", "evil.example", "200"},
			{"GET / HTTP/1.1", "evil.example", "421"}, {"GET / HTTP/1.1", "evil.example:443", "421"}, {"GET / HTTP/1.1", "10.0.0.9", "421"},
			{"GET / HTTP/1.1", "reelay.example.evil.example", "421"}, {"GET / HTTP/1.1", "notreelay.example", "421"}, {"GET / HTTP/1.1", "", "421"},
			{"GET http://evil.example/ HTTP/1.1", "reelay.example", "421"}, {"GET //evil.example/healthz HTTP/1.1", "evil.example", "421"},
		} {
			answer := raw(t, address, c.line+"\r\nHost: "+c.host+
				"\r\nX-Forwarded-Host: reelay.example\r\nForwarded: host=reelay.example\r\nConnection: close\r\n\r\n")

			require.Regexp(t, "^HTTP/1.1 "+c.status+" ", answer, c)
			require.NotContains(t, answer, "evil", "nothing is made of the header")
		}
	})

	t.Run("AreAllAnsweredIfNoneIsSet", func(t *testing.T) {
		t.Parallel()

		address, _, _ := serving(t, Hosts(nil).Only("https://films.example", http.NotFoundHandler()).ServeHTTP)

		require.Regexp(t, "^HTTP/1.1 404 ", raw(t, address, "GET / HTTP/1.1\r\nHost: any.example\r\nConnection: close\r\n\r\n"))
	})
}

func TestBase(t *testing.T) {
	t.Parallel()

	const public = "https://reelay.example"
	for name, c := range map[string]struct {
		hosts  Hosts
		public string
		host   string
		tls    bool
		want   string
	}{
		"TheNameOfAMachineWithoutAPublicAddress": {nil, "http://127.0.0.1:8080", "localhost:8080", false, "http://localhost:8080"},
		"ItsAddress":                             {nil, "http://127.0.0.1:8080", "192.0.2.2:8080", false, "http://192.0.2.2:8080"},
		"ItsIPv6Address":                         {nil, "http://127.0.0.1:8080", "[2001:db8::1]:8080", false, "http://[2001:db8::1]:8080"},
		"APortThatLeadsHere":                     {nil, "http://127.0.0.1:8080", "127.0.0.1:18080", false, "http://127.0.0.1:18080"},
		"TLS":                                    {nil, "https://127.0.0.1:8443", "localhost:8443", true, "https://localhost:8443"},
		"ThePublicName":                          {nil, public, "reelay.example", false, public},
		"ThePublicNameBehindAProxy":              {Hosts{"reelay.example"}, public, "reelay.example:443", false, public},
		"ANameOfAProxy":                          {nil, public, "10.0.0.5:8080", false, public},
		"LoopbackBehindAProxy":                   {nil, public, "127.0.0.1:8080", false, public},
		"LoopbackBehindAProxyAtAPort":            {nil, "https://localhost:8443", "localhost:8443", false, "https://localhost:8443"},
		"ANamedHost":                             {Hosts{"api.internal"}, public, "API.internal:8080", false, "http://API.internal:8080"},
		"ANamedHostWithTLS":                      {Hosts{"api.internal"}, public, "api.internal", true, "https://api.internal"},
		"ANamedHostPerhapsBehindAProxy":          {Hosts{"api.internal"}, public, "api.internal", false, public},
		"AnotherHost":                            {Hosts{"api.internal"}, public, "evil.example:8080", false, public},
		"NoHost":                                 {nil, "http://127.0.0.1:8080", "", false, "http://127.0.0.1:8080"},
		"AnInvalidHost":                          {nil, "http://127.0.0.1:8080", "a@b:8080", false, "http://127.0.0.1:8080"},
		"AnInvalidPort":                          {nil, "http://127.0.0.1:8080", "localhost:80x", false, "http://127.0.0.1:8080"},
		"AnAddressWithTheSamePrefix":             {nil, "http://127.0.0.1.example", "localhost:8080", false, "http://127.0.0.1.example"},
		"ThePublicURLWithASlash":                 {nil, public + "/", "x.example", false, public},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			request := &http.Request{Host: c.host, Header: http.Header{"X-Forwarded-Host": {"evil.example"}, "X-Forwarded-Proto": {"https"}}}
			if c.tls {
				request.TLS = &tls.ConnectionState{}
			}

			require.Equal(t, c.want, c.hosts.Base(c.public)(request))
		})
	}
}

func TestOrigins(t *testing.T) {
	t.Parallel()

	t.Run("IgnoreCase", func(t *testing.T) {
		t.Parallel()

		read, err := ReadOrigins(" App.example , *.studio.example,localhost:5173,127.0.0.1:*,*,")

		require.NoError(t, err)
		require.Equal(t, Origins{"app.example", "*.studio.example", "localhost:5173", "127.0.0.1:*", "*"}, read)
		for _, wrong := range []string{
			"https://app.example", "app.example/x", "a b", "a@b", "-a", "null:", "a:http", "[a-z].example", `a\*`, "app.example.",
			strings.Repeat("a", 254),
		} {
			_, err := ReadOrigins("app.example," + wrong)
			require.ErrorContains(t, err, "is not a host", wrong)
		}
	})

	t.Run("IncludeThePagesOfTheirHosts", func(t *testing.T) {
		t.Parallel()

		named := Origins{"app.example", "*.studio.example", "localhost:5173"}
		for origin, included := range map[string]bool{
			"https://app.example": true, "https://APP.example": true, "http://app.example": true, "http://localhost:5173": true,
			"https://one.studio.example": true, "https://a.b.studio.example": true,
			"https://app.example:8443": false, "http://localhost": false, "https://studio.example": false, "https://evilstudio.example": false,
			"https://app.example.evil.example": false, "https://evil.example/app.example": false, "https://evil.example?.studio.example": false,
			"https://evil.example:80.studio.example": false, "app.example": false, "null": false, "": false, "file://": false,
		} {
			require.Equal(t, included, named.Include(origin), origin)
		}
		require.True(t, Origins{"*"}.Include("https://evil.example:8443"))
		require.False(t, Origins{"*"}.Include("null"))
	})
}
