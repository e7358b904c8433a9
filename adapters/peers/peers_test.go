package peers_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/reelay/reelay/adapters/peers"
	"github.com/reelay/reelay/features/region"
	"github.com/reelay/reelay/models/regions"
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

		said := p.Ask(t.Context())

		require.Len(t, said, 2)
		require.Equal(t, p.URLs, []string{said[0].Address, said[1].Address})
		require.Equal(t, region.Claim{Region: "us"}, *said[0].Claim)
		require.Equal(t, region.Claim{Region: "ap"}, *said[1].Claim, "also with a key that is older")
		require.NotNil(t, said[0].AnsweredAt)
		require.Empty(t, said[0].Failure)
	})

	t.Run("ProveNothingWithoutTheKeys", func(t *testing.T) {
		t.Parallel()
		real := serve(t, "us", "a")
		answers := map[string]http.HandlerFunc{
			"no MAC": func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write([]byte(`{"region":"us","epoch":9,"primary":true}`))
			},
			"a page":   func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
			"an error": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusBadGateway) },
			"a flood": func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write([]byte(`{"region":"` + strings.Repeat("a", 1<<20)))
			},
			"a redirect": func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, real+r.URL.RequestURI(), http.StatusFound)
			},
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
			said := (&peers.Peers{URLs: []string{server.URL}, Keys: keys("a")}).Ask(t.Context())[0]
			require.Nil(t, said.Claim, name)
			require.NotEmpty(t, said.Failure, name)
			require.Nil(t, said.AnsweredAt, name)
		}
		require.Nil(t, (&peers.Peers{URLs: []string{real}, Keys: keys("b")}).Ask(t.Context())[0].Claim, "another installation")
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
		asked := &peers.Peers{URLs: []string{serve(t, "us", "a"), gone.URL, serve(t, "ap", "b")}, Keys: keys("a")}
		examiner := &peers.Examiner{Look: func(ctx context.Context) (*region.Standing, error) {
			return &region.Standing{Region: "eu", Newest: regions.Promotion{Epoch: 1, Region: "eu"}, Peers: asked.Ask(ctx)}, nil
		}}

		found := examiner.Examine(t.Context())

		require.Contains(t, found[0].Found, gone.URL)
		require.Contains(t, found[0].Found, "the same secrets file")
		require.NotEmpty(t, found[0].Fix)
		require.Empty(t, found[1].Found)

		asked.URLs = []string{serve(t, "eu", "a")}
		require.Contains(t, examiner.Examine(t.Context())[0].Found, "an api of this region, eu")
		failing := &peers.Examiner{Look: func(context.Context) (*region.Standing, error) { return nil, errors.New("down") }}
		require.Contains(t, failing.Examine(t.Context())[0].Found, "down")
	})
}
