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
		for _, query := range []string{"", "?nonce=", "?nonce=00", "?nonce=" + strings.Repeat("zz", 16), "?nonce=" + strings.Repeat("00",
			1000)} {
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
		require.Contains(t, found[0].Found, "It does not answer (connection refused): whether it serves is unknown.")
		require.Contains(t, found[0].Found, "It answers, but is not of this installation (another secrets file?)")
		require.NotEmpty(t, found[0].Fix)
		require.Empty(t, found[1].Found)

		asked.URLs = []string{serve(t, "eu", "a")}
		require.Contains(t, examiner.Examine(t.Context())[0].Found, "this region itself, eu")
		asked.URLs = nil
		require.Contains(t, examiner.Examine(t.Context())[0].Found, "No peers are set: nothing was asked.")
		failing := &peers.Examiner{Look: func(context.Context) (*region.Standing, error) { return nil, errors.New("down") }}
		require.Contains(t, failing.Examine(t.Context())[0].Found, "down")
	})

	t.Run("KnowAStandbyFromAPrimary", func(t *testing.T) {
		t.Parallel()
		eu := region.Claim{Region: "eu", Epoch: 1, Primary: true, Installation: "one"}
		us := region.Claim{Region: "us", Epoch: 2, Primary: true, Installation: "one"}
		newest := regions.Promotion{Epoch: 1, Region: "eu", Installation: "one"}
		follows := regions.Server{Standby: true, Receiving: true, MayPromote: true}
		for name, c := range map[string]struct {
			standing    region.Standing
			says, holds string
		}{
			"AStandby": {region.Standing{Region: "us", Server: follows, Newest: newest, Peers: []region.Peer{{Claim: &eu}}}, "",
				"This region, us, is a standby of eu."},
			"AStandbyThatCanTakeOver": {region.Standing{Region: "us", Server: regions.Server{Standby: true, MayPromote: true},
				Newest: newest},
				"This region waits", ""},
			"AStandbyThatFollowsNobody": {region.Standing{Region: "us", Server: regions.Server{Standby: true, MayPromote: true},
				Newest: newest,
				Peers:  []region.Peer{{Claim: &eu}}}, "receives nothing", ""},
			"AnOldPrimary": {region.Standing{Region: "eu", Newest: regions.Promotion{Epoch: 2, Region: "us", Learned: true,
				Installation: "one"},
				Peers: []region.Peer{{Claim: &us}}}, "Region us took over (epoch 2)", ""},
			"AnOldPrimaryThatDoesNotKnowItYet": {region.Standing{Region: "eu", Newest: newest, Peers: []region.Peer{{Claim: &us}}},
				"Region us took over from this one", ""},
			"TheFirst": {region.Standing{Region: "eu"}, "None is yet", ""},
			"ASplit": {region.Standing{Region: "eu", Newest: regions.Promotion{Epoch: 3, Region: "eu", Installation: "one"},
				Peers: []region.Peer{{Claim: &us}}},
				"Region us claims to be the primary, too", "Region eu is the only primary."},
		} {
			examiner := &peers.Examiner{Look: func(context.Context) (*region.Standing, error) { return &c.standing, nil }}
			found := examiner.Examine(t.Context())[1]
			require.Equal(t, "region-primary", found.Check, name)
			if c.says == "" {
				require.Empty(t, found.Found, name)
			}
			require.Contains(t, found.Found, c.says, name)
			require.Contains(t, found.Holds, c.holds, name)
		}
	})

	t.Run("SayWhetherTheRoleMayPromote", func(t *testing.T) {
		t.Parallel()
		standing := &region.Standing{Region: "eu", Server: regions.Server{Role: "reelay", Database: "jobs"}}
		examiner := &peers.Examiner{Look: func(context.Context) (*region.Standing, error) { return standing, nil }}
		found := examiner.Examine(t.Context())[2]
		require.Equal(t, "region-promotion", found.Check)
		require.Contains(t, found.Fix, "psql -d jobs -c 'GRANT EXECUTE ON FUNCTION pg_promote")
		standing.Server.MayPromote = true
		require.Empty(t, examiner.Examine(t.Context())[2].Found)
	})
}
