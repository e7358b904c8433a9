package outbound

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
)

// resolver returns a resolver with its own name server on a real socket. The server
// answers each question with the next of these sets of addresses.
func resolver(t *testing.T, answers ...[]string) *net.Resolver {
	t.Helper()
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = socket.Close() })
	var asked atomic.Int64
	go func() {
		buffer := make([]byte, 1500)
		for {
			n, from, err := socket.ReadFrom(buffer)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buffer[:n]) != nil {
				continue
			}
			m.Response, m.Authoritative, m.Additionals = true, true, nil
			question := m.Questions[0]
			set := answers[0]
			if question.Type == dnsmessage.TypeA { // once per lookup, which also asks for AAAA
				set = answers[min(int(asked.Add(1))-1, len(answers)-1)]
			}
			for _, text := range set {
				a := netip.MustParseAddr(text)
				head := dnsmessage.ResourceHeader{Name: question.Name, Type: question.Type, Class: question.Class}
				switch {
				case question.Type == dnsmessage.TypeA && a.Is4():
					m.Answers = append(m.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AResource{A: a.As4()}})
				case question.Type == dnsmessage.TypeAAAA && a.Is6():
					m.Answers = append(m.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
				}
			}
			packed, err := m.Pack()
			if err == nil {
				_, _ = socket.WriteTo(packed, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", socket.LocalAddr().String())
	}}
}

// get calls a URL and returns the status and the body.
func get(t *testing.T, client interface {
	Do(*http.Request) (*http.Response, error)
}, url string) (int, []byte, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	answer, err := client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := ReadAll(answer.Body, 1<<10)
	return answer.StatusCode, body, err
}

func TestClient_RefusesAddressesThatAreNotPublic(t *testing.T) {
	t.Parallel()

	for _, address := range []string{
		"127.0.0.1", "10.0.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "198.18.0.1", "192.0.0.1", "240.0.0.1",
		"::1", "fd20:ce::254", "fe80::1", "fec0::1", "64:ff9b::7f00:1", "2002:7f00:1::", "2001::1", "::ffff:127.0.0.1",
	} {
		client := Policy{}.client(time.Minute, resolver(t, []string{address}))

		_, _, err := get(t, client, "https://rebound.example/")

		require.ErrorIs(t, err, ErrNotPublic, address)
		require.Equal(t, "it leads to an address that is not public", Reason(err))
	}
}

func TestClient_DialsOnlyThePublicOnesOfSeveralAddresses(t *testing.T) {
	t.Parallel()

	var reached atomic.Int64
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer server.Close()
	port := server.Listener.Addr().(*net.TCPAddr).Port
	client := Policy{}.client(time.Minute, resolver(t, []string{"127.0.0.1", "::1", "10.0.0.1"}))

	_, _, err := get(t, client, fmt.Sprintf("https://mixed.example:%d/", port))

	require.ErrorIs(t, err, ErrNotPublic)
	require.Zero(t, reached.Load())
}

func TestClient_ChecksTheAddressOfEachConnection(t *testing.T) {
	t.Parallel()

	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	defer server.Close()
	client := Policy{AllowLoopback: true}.client(time.Minute, resolver(t, []string{"127.0.0.1"}, []string{"10.0.0.1"}))
	transport := client.Transport.(guarded).next
	transport.TLSClientConfig = &tls.Config{RootCAs: server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs,
		ServerName: "example.com", MinVersion: tls.VersionTLS12}
	url := fmt.Sprintf("https://flips.example:%d/", server.Listener.Addr().(*net.TCPAddr).Port)

	_, body, first := get(t, client, url)
	client.CloseIdleConnections()
	_, _, second := get(t, client, url)

	require.NoError(t, first)
	require.Equal(t, "hello", string(body))
	require.ErrorIs(t, second, ErrNotPublic)
}

func TestClient_ChecksTheURLAgain(t *testing.T) {
	t.Parallel()

	client := Policy{}.Client(time.Minute)

	for _, url := range []string{"http://host.example/", "https://127.0.0.1/", "https://user:pw@host.example/", "https://host.example:22/"} {
		_, _, err := get(t, client, url)
		var refusal Refusal
		require.ErrorAs(t, err, &refusal, url)
	}
}

func TestClient_FollowsNoRedirect(t *testing.T) {
	t.Parallel()

	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}))
	defer server.Close()

	status, _, err := get(t, Policy{AllowLoopback: true}.Client(time.Minute), server.URL)

	require.NoError(t, err)
	require.Equal(t, http.StatusTemporaryRedirect, status)
	require.EqualValues(t, 1, calls.Load())
}

func TestClient_LimitsTheResponse(t *testing.T) {
	t.Parallel()

	var bomb bytes.Buffer
	zip := gzip.NewWriter(&bomb)
	_, _ = zip.Write(make([]byte, 1<<20))
	require.NoError(t, zip.Close())
	mux := http.NewServeMux()
	mux.HandleFunc("/huge", func(w http.ResponseWriter, _ *http.Request) {
		for range 1 << 10 {
			if _, err := w.Write(make([]byte, 1<<10)); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/head", func(w http.ResponseWriter, _ *http.Request) {
		for i := range 1000 {
			w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("x", 100))
		}
	})
	mux.HandleFunc("/gzip", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") == "" {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb.Bytes()[:512])
		}
	})
	mux.HandleFunc("/drip", func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("a"))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	mux.HandleFunc("/hang", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	server := httptest.NewServer(mux)
	defer server.Close()
	policy := Policy{AllowLoopback: true}

	_, _, huge := get(t, policy.Client(time.Minute), server.URL+"/huge")
	_, _, head := get(t, policy.Client(time.Minute).Client, server.URL+"/head")
	_, zipped, gzipped := get(t, policy.Client(time.Minute), server.URL+"/gzip")
	_, _, drip := get(t, policy.Client(100*time.Millisecond).Client, server.URL+"/drip")
	_, _, hang := get(t, policy.Client(100*time.Millisecond).Client, server.URL+"/hang")

	require.ErrorIs(t, huge, ErrTooLarge)
	require.ErrorContains(t, head, "server response headers exceeded")
	require.NoError(t, gzipped)
	require.Equal(t, bomb.Bytes()[:512], zipped)
	require.Equal(t, "no complete answer arrived in time", Reason(drip))
	require.Equal(t, "no complete answer arrived in time", Reason(hang))
}

func TestClient_UsesNoProxy(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()

	status, _, err := get(t, Policy{AllowLoopback: true}.Client(time.Minute), server.URL)

	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
	require.Nil(t, Policy{}.Client(time.Minute).Transport.(guarded).next.Proxy)
}

func TestReason_NamesErrorsOfTLSAndDNS(t *testing.T) {
	t.Parallel()

	selfSigned := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	selfSigned.Config.ErrorLog = log.New(io.Discard, "", 0)
	selfSigned.StartTLS()
	defer selfSigned.Close()
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer plain.Close()
	client := Policy{AllowLoopback: true}.client(time.Minute, resolver(t, nil))

	_, _, untrusted := get(t, client, selfSigned.URL)
	_, _, noTLS := get(t, client, strings.Replace(plain.URL, "http:", "https:", 1))
	_, _, noName := get(t, client, "https://nowhere.example/")
	plain.Close()
	_, _, refused := get(t, client, plain.URL)

	require.Equal(t, "its TLS certificate is not valid", Reason(untrusted))
	require.Equal(t, "its server does not speak TLS correctly", Reason(noTLS))
	require.Equal(t, "its host has no address", Reason(noName))
	require.Equal(t, "the connection was refused", Reason(refused))
	require.Equal(t, "the connection failed", Reason(errors.New("secret")))
}

func TestClient_DoesNotRevealWhatListensOnThisMachine(t *testing.T) {
	t.Parallel()

	closed, silent, other := httptest.NewServer(nil), listen(t, nil), listen(t, []byte("SSH-2.0-OpenSSH\r\n"))
	closed.Close()
	secure := httptest.NewUnstartedServer(nil)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	client := Policy{AllowLoopback: true}.Client(time.Second)

	for name, url := range map[string]string{"closed": closed.URL, "silent": silent, "no HTTP": other, "TLS": secure.URL,
		"no TLS": strings.Replace(other, "http:", "https:", 1)} {
		_, _, err := get(t, client, url)

		require.Error(t, err, name)
		require.Equal(t, "this machine gave no HTTP answer", Reason(err), name)
	}
	_, _, own := get(t, Policy{AllowLoopback: true}.Except("localhost:9999").Client(time.Second), "http://127.0.0.1:9999/")
	require.ErrorIs(t, own, ErrOwn)
}

// listen returns the URL of a server that answers each connection with these bytes. If
// there are none, it never answers.
func listen(t *testing.T, says []byte) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				conn.Write(says)
				io.Copy(io.Discard, conn)
			}()
		}
	}()
	return "http://" + listener.Addr().String()
}

func TestClient_RecognisesOtherNamesOfReelaysOwnAddress(t *testing.T) {
	t.Parallel()

	server := httptest.NewServer(nil)
	defer server.Close()
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	require.NoError(t, err)
	named := Policy{AllowLoopback: true}.Except(net.JoinHostPort("store.example", port))

	_, _, failed := get(t, Client{named.client(time.Minute, resolver(t, []string{"127.0.0.1"}))}, "https://other.example:"+port+"/")

	require.ErrorIs(t, failed, ErrOwn)
}

func TestClient_EncodesTheQuery(t *testing.T) {
	t.Parallel()

	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.RequestURI) }))
	defer server.Close()

	_, body, err := get(t, Policy{AllowLoopback: true}.Client(time.Minute), server.URL+"/ä?q=ä€&x=a\"b%20")

	require.NoError(t, err)
	require.Equal(t, "/%C3%A4?q=%C3%A4%E2%82%AC&x=a%22b%20", string(body))
}
