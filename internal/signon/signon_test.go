package signon_test

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/oauth2-proxy/mockoidc"
	"github.com/reelay/reelay/internal/signon"
	"github.com/stretchr/testify/require"
)

// server runs an OpenID provider.
func server(t *testing.T, middleware ...func(http.Handler) http.Handler) (*mockoidc.MockOIDC, signon.Config) {
	t.Helper()
	m, err := mockoidc.NewServer(nil)
	require.NoError(t, err)
	for _, between := range middleware {
		require.NoError(t, m.AddMiddleware(between))
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, m.Start(listener, nil))
	t.Cleanup(func() { m.Shutdown() })
	m.QueueUser(&mockoidc.MockUser{Subject: "1", Email: "ana@example.com", EmailVerified: true, Groups: []string{"ops", "staff"}})
	return m, signon.Config{
		Issuer: m.Issuer(), ClientID: m.ClientID, ClientSecret: func() string { return m.ClientSecret }, RedirectURL: "https://console.example/login/sso/callback",
		Scopes: []string{"profile", "email", "groups"}, GroupsClaim: "groups",
	}
}

// visit follows the provider's page, and returns the query with which it sends a person back.
func visit(t *testing.T, address string) url.Values {
	t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Get(address)
	require.NoError(t, err)
	defer res.Body.Close()
	back, err := url.Parse(res.Header.Get("Location"))
	require.NoError(t, err)
	return back.Query()
}

func TestProvider(t *testing.T) {
	t.Parallel()

	t.Run("SaysWhoLoggedIn", func(t *testing.T) {
		t.Parallel()

		m, config := server(t)
		p := signon.New(config)
		address, attempt, err := p.Begin(t.Context())
		require.NoError(t, err)
		require.Contains(t, address, "code_challenge_method=S256")
		back := visit(t, address)

		claims, err := p.Finish(t.Context(), attempt, back.Get("state"), back.Get("code"))

		require.NoError(t, err)
		require.Equal(t, &signon.Claims{Issuer: m.Issuer(), Subject: "1", Email: "ana@example.com", EmailVerified: true,
			Groups: []string{"ops", "staff"}}, claims)
		_, err = p.Finish(t.Context(), attempt, back.Get("state"), back.Get("code"))
		require.ErrorIs(t, err, signon.ErrRefused, "a code is valid once")
	})

	for name, spoil := range map[string]func(m *mockoidc.MockOIDC, a *signon.Attempt, back url.Values, c *signon.Config){
		"AnotherState": func(_ *mockoidc.MockOIDC, _ *signon.Attempt, back url.Values, _ *signon.Config) {
			back.Set("state", "x")
		},
		"NoAttempt": func(_ *mockoidc.MockOIDC, a *signon.Attempt, back url.Values, _ *signon.Config) {
			*a = signon.Attempt{}
			back.Del("state")
		},
		"AnotherNonce":    func(_ *mockoidc.MockOIDC, a *signon.Attempt, _ url.Values, _ *signon.Config) { a.Nonce = "x" },
		"AnotherVerifier": func(_ *mockoidc.MockOIDC, a *signon.Attempt, _ url.Values, _ *signon.Config) { a.Verifier = "x" },
		"AnOldToken": func(m *mockoidc.MockOIDC, _ *signon.Attempt, _ url.Values, _ *signon.Config) {
			m.AccessTTL = -time.Hour
		},
	} {
		t.Run("Refuses"+name, func(t *testing.T) {
			t.Parallel()

			m, config := server(t)
			p := signon.New(config)
			address, attempt, err := p.Begin(t.Context())
			require.NoError(t, err)
			back := visit(t, address)
			spoil(m, &attempt, back, &config)

			_, err = p.Finish(t.Context(), attempt, back.Get("state"), back.Get("code"))

			require.ErrorIs(t, err, signon.ErrRefused)
		})
	}

	t.Run("UsesTheNewestSecret", func(t *testing.T) {
		t.Parallel()

		m, config := server(t)
		secret := m.ClientSecret
		config.ClientSecret = func() string { return secret }
		p := signon.New(config)
		login := func() error {
			m.QueueUser(&mockoidc.MockUser{Subject: "1"})
			address, attempt, err := p.Begin(t.Context())
			require.NoError(t, err)
			back := visit(t, address)
			_, err = p.Finish(t.Context(), attempt, back.Get("state"), back.Get("code"))
			return err
		}
		require.NoError(t, login())
		m.ClientSecret = "rotated"
		require.ErrorIs(t, login(), signon.ErrRefused)

		secret = "rotated"

		require.NoError(t, login())
	})

	t.Run("RefusesATokenForAnotherAudience", func(t *testing.T) {
		t.Parallel()

		m, config := server(t, func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.ParseForm() == nil && r.Form.Get("client_secret") != "" {
					r.Form.Set("client_id", "another client")
				}
				next.ServeHTTP(w, r)
			})
		})
		p := signon.New(config)
		address, attempt, err := p.Begin(t.Context())
		require.NoError(t, err)
		back := visit(t, address)
		m.ClientID = "another client" // it issues tokens for this one

		_, err = p.Finish(t.Context(), attempt, back.Get("state"), back.Get("code"))

		require.ErrorIs(t, err, signon.ErrRefused)
		require.ErrorContains(t, err, "audience")
	})

	t.Run("TakesATokenOnlyIfThisClientIsItsParty", func(t *testing.T) {
		t.Parallel()

		for name, c := range map[string]struct {
			audience any
			party    any
			refused  bool
		}{
			"one audience":                    {audience: "reelay"},
			"one audience, this party":        {audience: []string{"reelay"}, party: "reelay"},
			"several audiences, this party":   {audience: []string{"other", "reelay"}, party: "reelay"},
			"several audiences, other party":  {audience: []string{"reelay", "other"}, party: "other", refused: true},
			"several audiences, no party":     {audience: []string{"reelay", "other"}, refused: true},
			"one audience, other party":       {audience: "reelay", party: "other", refused: true},
			"one audience, an empty party":    {audience: "reelay", party: "", refused: true},
			"one audience, a party of a list": {audience: "reelay", party: []string{"reelay"}, refused: true},
		} {
			var m *mockoidc.MockOIDC
			m, config := server(t, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path != mockoidc.TokenEndpoint {
						next.ServeHTTP(w, r)
						return
					}
					answer := httptest.NewRecorder()
					next.ServeHTTP(answer, r)
					var tokens map[string]any
					claims := jwt.MapClaims{}
					if json.Unmarshal(answer.Body.Bytes(), &tokens) == nil {
						_, _, _ = jwt.NewParser().ParseUnverified(tokens["id_token"].(string), claims)
						if claims["aud"] = c.audience; c.party != nil {
							claims["azp"] = c.party
						}
						tokens["id_token"], _ = m.Keypair.SignJWT(claims)
					}
					w.Header().Set("Content-Type", "application/json")
					_ = json.NewEncoder(w).Encode(tokens)
				})
			})
			m.ClientID, config.ClientID = "reelay", "reelay"
			p := signon.New(config)
			address, attempt, err := p.Begin(t.Context())
			require.NoError(t, err, name)
			back := visit(t, address)

			_, err = p.Finish(t.Context(), attempt, back.Get("state"), back.Get("code"))

			if c.refused {
				require.ErrorIs(t, err, signon.ErrRefused, name)
			} else {
				require.NoError(t, err, name)
			}
		}
	})

	t.Run("SaysThatTheProviderIsDown", func(t *testing.T) {
		t.Parallel()

		m, config := server(t)
		other := httptest.NewServer(http.NotFoundHandler())
		t.Cleanup(other.Close)
		p := signon.New(config)
		require.NoError(t, m.Shutdown())
		_, _, err := p.Begin(t.Context())
		require.ErrorIs(t, err, signon.ErrDown)

		config.Issuer = other.URL
		_, _, err = signon.New(config).Begin(t.Context())
		require.ErrorIs(t, err, signon.ErrDown)
	})

	t.Run("RefusesAProviderWithAnotherIssuer", func(t *testing.T) {
		t.Parallel()

		m, config := server(t)
		lying := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, m.DiscoveryEndpoint(), http.StatusTemporaryRedirect)
		}))
		t.Cleanup(lying.Close)
		config.Issuer = lying.URL

		_, _, err := signon.New(config).Begin(t.Context())

		require.ErrorIs(t, err, signon.ErrDown)
		require.ErrorContains(t, err, "issuer")
	})
}
