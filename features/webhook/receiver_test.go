package webhook

import (
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// speak starts a server that answers a request on each connection with these bytes, that many
// times, until the client hangs up.
func speak(t *testing.T, answer string, often int) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if _, err := conn.Read(make([]byte, 4<<10)); err != nil {
					return
				}
				for range often {
					if _, err := io.WriteString(conn, answer); err != nil {
						return
					}
				}
				_, _ = io.Copy(io.Discard, conn)
			}()
		}
	}()
	return "http://" + listener.Addr().String()
}

// secured starts a receiver with that TLS configuration.
func secured(t *testing.T, config *tls.Config) string {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was sent") }))
	server.Config.ErrorLog, server.TLS = log.New(io.Discard, "", 0), config
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL
}

// certificate returns a self-signed certificate for this machine.
func certificate(t *testing.T, from, until time.Time) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: until, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// Whatever a receiver does, a try ends in time, with a message for its owner and with little
// of the response.
func TestSend_ToMisbehavingReceivers(t *testing.T) {
	t.Parallel()

	now := time.Now()
	with := func(c tls.Certificate) *tls.Config { return &tls.Config{Certificates: []tls.Certificate{c}} }
	// drip starts a receiver whose response has that status and never ends.
	drip := func(status int) string {
		return receive(t, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte("a"))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})
	}
	bomb := receive(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(http.StatusInternalServerError)
		_ = http.NewResponseController(w).Flush()
		zip := gzip.NewWriter(w)
		for r.Context().Err() == nil {
			if _, err := zip.Write(make([]byte, 1<<20)); err != nil {
				return
			}
		}
	})
	heads := receive(t, func(w http.ResponseWriter, _ *http.Request) {
		for i := range 1000 {
			w.Header().Set(fmt.Sprintf("X-A-Header-That-Nobody-Asked-For-%d", i), "1")
		}
	})

	const broke = "The call failed: the connection failed."
	for name, c := range map[string]struct {
		url    string
		status int
		says   string
	}{
		"its certificate has expired": {secured(t, with(certificate(t, now.Add(-2*time.Hour), now.Add(-time.Hour)))), 0,
			"The call failed: its TLS certificate has expired or is not valid yet."},
		"its certificate is not valid yet": {secured(t, with(certificate(t, now.Add(time.Hour), now.Add(2*time.Hour)))), 0,
			"The call failed: its TLS certificate has expired or is not valid yet."},
		"its certificate is self-signed": {secured(t, with(certificate(t, now.Add(-time.Hour), now.Add(time.Hour)))), 0,
			"The call failed: its TLS certificate is not valid."},
		"it speaks TLS 1.0 only": {secured(t, &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS10}), 0,
			"The call failed: its server does not speak TLS correctly."},
		"it speaks HTTP/0.9":     {speak(t, "<p>thank you</p>\n", 1), 0, broke},
		"it sends 1,000 headers": {heads, 0, broke},
		"it sends 103 for ever":  {speak(t, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", 1<<20), 0, broke},
		"it sends only 100 Continue": {speak(t, "HTTP/1.1 100 Continue\r\n\r\n", 1), 0,
			"The call failed: no complete answer arrived in time."},
		"it sends nothing":           {speak(t, "", 0), 0, "The call failed: no complete answer arrived in time."},
		"it sends a gzip bomb":       {bomb, 500, "The endpoint responded with status 500 Internal Server Error."},
		"it is slow after an error":  {drip(503), 503, "The endpoint responded with status 503 Service Unavailable."},
		"it is slow after a success": {drip(200), 200, ""}, // it has received the event
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			const patience = 5 * time.Second
			answer := (&Sender{here.Client(patience).Client}).Send(t.Context(), post(c.url))

			require.Equal(t, c.says, answer.Error)
			require.Equal(t, c.status, answer.StatusCode)
			require.Zero(t, answer.RetryAfter)
			require.Less(t, answer.Duration, patience+time.Minute)
		})
	}
}
