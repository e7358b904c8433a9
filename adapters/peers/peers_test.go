package peers_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/reelay/reelay/adapters/peers"
	"github.com/reelay/reelay/features/region"
	"github.com/stretchr/testify/require"
)

func keys(texts ...string) func() [][]byte {
	return func() (all [][]byte) {
		for _, text := range texts {
			all = append(all, []byte(text))
		}
		return all
	}
}

// serve returns the address of a region that waits, with a key.
func serve(t *testing.T, name, key string) string {
	t.Helper()
	server := httptest.NewServer(peers.Handler(&region.Guard{Name: name}, keys(key)))
	t.Cleanup(server.Close)
	return server.URL
}

func TestPeers(t *testing.T) {
	t.Parallel()

	t.Run("SayWhatTheirRegionsAre", func(t *testing.T) {
		t.Parallel()
		p := &peers.Peers{URLs: []string{serve(t, "us", "a"), serve(t, "ap", "b") + "/"}, Keys: keys("a", "b")}

		require.Equal(t, []region.Claim{{Region: "ap"}, {Region: "us"}}, p.Claims(t.Context()), "also with a key that is older")
	})

	t.Run("ProveNothingWithoutTheKeys", func(t *testing.T) {
		t.Parallel()
		real := serve(t, "us", "a")
		answers := map[string]http.HandlerFunc{
			"no MAC":     func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"region":"us","epoch":9,"primary":true}`)) },
			"a page":     func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
			"an error":   func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusBadGateway) },
			"a flood":    func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"region":"` + strings.Repeat("a", 1<<20))) },
			"a redirect": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, real+r.URL.RequestURI(), http.StatusFound) },
			"an old answer": func(w http.ResponseWriter, _ *http.Request) {
				res, err := http.Get(real + peers.Path + "?nonce=" + strings.Repeat("00", 16))
				if err == nil {
					defer res.Body.Close()
					_ = res.Write(w)
				}
			},
		}
		for name, answer := range answers {
			server := httptest.NewServer(answer)
			t.Cleanup(server.Close)
			require.Empty(t, (&peers.Peers{URLs: []string{server.URL}, Keys: keys("a")}).Claims(t.Context()), name)
		}
		require.Empty(t, (&peers.Peers{URLs: []string{real}, Keys: keys("b")}).Claims(t.Context()), "another installation")
	})

	t.Run("AreAskedWithANonce", func(t *testing.T) {
		t.Parallel()
		address := serve(t, "us", "a") + peers.Path
		for _, query := range []string{"", "?nonce=", "?nonce=00", "?nonce=" + strings.Repeat("zz", 16), "?nonce=" + strings.Repeat("00", 1000)} {
			res, err := http.Get(address + query)
			require.NoError(t, err)
			res.Body.Close()
			require.Equal(t, http.StatusBadRequest, res.StatusCode, query)
		}
	})

	t.Run("AreExamined", func(t *testing.T) {
		t.Parallel()
		gone := httptest.NewServer(http.NotFoundHandler())
		gone.Close()
		examiner := &peers.Examiner{Region: "eu", Peers: &peers.Peers{URLs: []string{serve(t, "us", "a"), gone.URL, serve(t, "ap", "b")}, Keys: keys("a")}}

		found := examiner.Examine(t.Context())

		require.Contains(t, found[0].Found, gone.URL)
		require.Contains(t, found[0].Found, "the same secrets file")
		require.Empty(t, found[1].Found)
	})
}
