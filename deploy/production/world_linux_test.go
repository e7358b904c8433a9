package production

import (
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/oauth2-proxy/mockoidc"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// world is what the page takes for granted: Let's Encrypt, a bucket, an OpenID provider, and the receiver of alerts. One
// Caddy speaks for all of them; its authority is the only one that the machines trust.
type world struct {
	t                    *testing.T
	n                    *network
	authority            string // its certificate
	accessKey, secretKey string
	oidc                 *mockoidc.MockOIDC
	mu                   sync.Mutex
	calls                []string // the alerts, with the paths to which they were sent
}

// caddyfile is that of the world. Caddy's own directory of ACME is at another path than Let's Encrypt's.
const caddyfile = `{
	skip_install_trust
	auto_https disable_redirects
	admin off
}
(world) {
	tls internal
}
https://acme-v02.api.letsencrypt.org {
	import world
	rewrite /directory /acme/local/directory
	acme_server
}
https://s3.example.com {
	import world
	reverse_proxy 127.0.0.1:7070
}
https://id.example.com {
	import world
	reverse_proxy %s
}
https://ops.example.com {
	import world
	reverse_proxy %s
}
`

func newWorld(t *testing.T, n *network) *world {
	t.Helper()
	w := &world{t: t, n: n, accessKey: rand.Text(), secretKey: rand.Text()}
	folder := t.TempDir()

	var err error
	w.oidc, err = mockoidc.NewServer(nil)
	require.NoError(t, err)
	w.oidc.ClientID, w.oidc.ClientSecret = "reelay", rand.Text()
	provider := n.listen()
	require.NoError(t, w.oidc.Start(provider, &tls.Config{})) // Caddy speaks TLS for it
	w.oidc.Server.Addr = "id.example.com"
	t.Cleanup(func() { require.NoError(t, w.oidc.Shutdown()) })

	onCall := &httptest.Server{Listener: n.listen(), Config: &http.Server{Handler: http.HandlerFunc(w.call)}}
	onCall.Start()
	t.Cleanup(onCall.Close)

	buckets := filepath.Join(folder, "buckets")
	require.NoError(t, os.MkdirAll(filepath.Join(buckets, "clips"), 0o755))
	store, err := filepath.Abs("../../bin/versitygw")
	require.NoError(t, err)
	w.start("versitygw", []string{"ROOT_ACCESS_KEY=" + w.accessKey, "ROOT_SECRET_KEY=" + w.secretKey},
		store, "--port", "127.0.0.1:7070", "--quiet", "--keep-alive", "posix", buckets)

	config := filepath.Join(folder, "Caddyfile")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, caddyfile, provider.Addr(), onCall.Listener.Addr()), 0o644))
	w.start("caddy", []string{"XDG_DATA_HOME=" + folder, "XDG_CONFIG_HOME=" + folder, "HOME=" + folder},
		"caddy", "run", "--config", config, "--adapter", "caddyfile")
	w.authority = filepath.Join(folder, "caddy/pki/authorities/local/root.crt")
	testrun.Eventually(t, "the world answers", func() bool {
		return n.command("curl", "-fsS", "--cacert", w.authority, "https://acme-v02.api.letsencrypt.org/directory").Run() == nil
	})
	return w
}

// start starts a program of the world.
func (w *world) start(name string, env []string, program string, args ...string) {
	w.t.Helper()
	cmd := w.n.command(program, args...)
	cmd.Env = append(os.Environ(), env...)
	log := logOf(w.t, name)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(w.t, cmd.Start(), name)
}

// call records an alert.
func (w *world) call(_ http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, r.URL.Path+" "+string(body))
}

// called returns a check whether an alert that contains a text was sent to a path.
func (w *world) called(path, text string) func() bool {
	return func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, call := range w.calls {
			if body, is := strings.CutPrefix(call, path+" "); is && strings.Contains(body, text) {
				return true
			}
		}
		return false
	}
}

// browser returns a client that reaches the machines as one in the network does.
func (w *world) browser() *http.Client {
	jar, err := cookiejar.New(nil)
	require.NoError(w.t, err)
	return &http.Client{Jar: jar, Transport: w.n.transport(w.t, w.authority)}
}

// logIn logs in at the console through the OpenID provider, and returns the page of the login.
func (w *world) logIn(email, group string) (page string) {
	w.t.Helper()
	w.oidc.QueueUser(&mockoidc.MockUser{Subject: email, Email: email, EmailVerified: true, Groups: []string{group}})
	browser := w.browser()
	answer, err := browser.Get("https://reelay.example.com/login/sso?next=/me")
	require.NoError(w.t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(w.t, err)
	require.Equal(w.t, http.StatusOK, answer.StatusCode, string(text))
	return string(text)
}

// targets reads the answer of Prometheus to the query up.
func targets(t *testing.T, answer string) (up, down []string) {
	t.Helper()
	var document struct {
		Data struct {
			Result []struct {
				Metric struct{ Instance string }
				Value  []any
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(answer), &document), answer)
	for _, r := range document.Data.Result {
		if r.Value[1] == "1" {
			up = append(up, r.Metric.Instance)
		} else {
			down = append(down, r.Metric.Instance)
		}
	}
	return up, down
}
