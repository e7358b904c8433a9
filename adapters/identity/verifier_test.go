package identity

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/stretchr/testify/require"
)

func TestVerifier(t *testing.T) {
	t.Parallel()

	t.Run("ReturnsTheMachine", func(t *testing.T) {
		t.Parallel()
		i := newIssuer(t)
		good := token(t, i.claims(nil), 0, "first")
		require.True(t, Is(good))

		m, err := i.Verify(t.Context(), good)

		require.NoError(t, err)
		require.Len(t, m.Token, 32)
		m.Token = nil
		require.Equal(t, &jobs.Machine{
			Provider: "gce", Project: "p", Zone: "us-central1-a", ID: "1234567890123456789", Name: "spot-1", Expires: m.Expires,
		}, m)
		require.True(t, m.Expires.Equal(i.clock.Add(time.Hour)))
		require.Equal(t, "p/us-central1-a/spot-1", m.Place())
	})

	t.Run("AcceptsAnAudienceThatMakesTheTokenUnique", func(t *testing.T) {
		t.Parallel()
		i := newIssuer(t)

		_, err := i.Verify(t.Context(), token(t, i.claims(object{"aud": "https://reelay.example#a7"}), 0, "first"))

		require.NoError(t, err)
	})

	for name, changes := range map[string]object{
		"expired":             {"exp": time.Date(2026, 11, 26, 11, 59, 59, 0, time.UTC).Unix()},
		"no exp":              {"exp": nil},
		"no iat":              {"iat": nil},
		"iat ahead":           {"iat": time.Date(2026, 11, 26, 12, 1, 1, 0, time.UTC).Unix()},
		"old iat":             {"iat": time.Date(2026, 11, 26, 11, 49, 59, 0, time.UTC).Unix()},
		"nbf ahead":           {"nbf": time.Date(2026, 11, 26, 13, 0, 0, 0, time.UTC).Unix()},
		"wrong audience":      {"aud": "https://elsewhere.example"},
		"longer audience":     {"aud": "https://reelay.example/#x"},
		"audience at the end": {"aud": "https://elsewhere.example#https://reelay.example"},
		"several audiences":   {"aud": []string{"https://reelay.example", "https://elsewhere.example"}},
		"no audience":         {"aud": nil},
		"wrong issuer":        {"iss": "https://accounts.google.com.evil.example"},
		"foreign project":     {"project_id": "evil"},
		"project with a path": {"project_id": "p/../p"},
		"foreign account":     {"email": "default@p.iam.gserviceaccount.com"},
		"unverified account":  {"email_verified": false},
		"no machine":          {"google": nil},
		"machine of garbage":  {"google": "machine"},
		"no name":             {"instance_name": ""},
		"name with a newline": {"instance_name": "a\nb"},
		"no zone":             {"zone": ""},
	} {
		t.Run("Refuses/"+name, func(t *testing.T) {
			t.Parallel()
			i := newIssuer(t)
			_, err := i.Verify(t.Context(), token(t, i.claims(changes), 0, "first"))
			requireRefused(t, err)
		})
	}

	t.Run("RefusesSignaturesOfOthers", func(t *testing.T) {
		t.Parallel()
		i := newIssuer(t)
		good := token(t, i.claims(nil), 0, "first")
		public, err := x509.MarshalPKIXPublicKey(signers()[0].Public())
		require.NoError(t, err)
		small, err := rsa.GenerateKey(rand.Reader, 1024)
		require.NoError(t, err)
		parts := strings.Split(good, ".")
		raw := func(v any) string {
			text, err := json.Marshal(v)
			require.NoError(t, err)
			return base64.RawURLEncoding.EncodeToString(text)
		}
		for name, forged := range map[string]string{
			"another key":         token(t, i.claims(nil), 1, "first"),
			"no kid":              token(t, i.claims(nil), 0, ""),
			"a small key":         sign(t, i.claims(nil), jose.RS256, small, "first"),
			"another algorithm":   sign(t, i.claims(nil), jose.PS256, signers()[0], "first"),
			"HS256, DER":          sign(t, i.claims(nil), jose.HS256, public, "first"),
			"HS256, PEM":          sign(t, i.claims(nil), jose.HS256, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), "first"),
			"alg none":            raw(object{"alg": "none", "typ": "JWT"}) + "." + parts[1] + ".",
			"alg none, signature": raw(object{"alg": "none", "kid": "first"}) + "." + parts[1] + "." + parts[2],
			"its own key":         raw(object{"alg": "RS256", "jwk": jose.JSONWebKey{Key: signers()[1].Public()}}) + "." + parts[1] + "." + parts[2],
			"other claims":        parts[0] + "." + raw(i.claims(object{"instance_name": "spot-2"})) + "." + parts[2],
			"no signature":        parts[0] + "." + parts[1] + ".",
			"garbage":             "eyJ.eyJ.x",
			"no claims":           token(t, object{}, 0, "first"),
		} {
			_, err := i.Verify(t.Context(), forged)
			require.Error(t, err, name)
			requireRefused(t, err)
		}
		_, err = i.Verify(t.Context(), good)
		require.NoError(t, err)
	})

	t.Run("LimitsHowManyItLooksAt", func(t *testing.T) {
		t.Parallel()
		i := newIssuer(t)
		var limited error
		for range burst * 5 {
			if _, err := i.Verify(t.Context(), "eyJ.eyJ.x"); apierror.HasCode(err, apierror.CodeRateLimited) {
				limited = err
				break
			}
		}
		require.Error(t, limited)
		require.Zero(t, i.fetches)
	})
}

func TestKeySet(t *testing.T) {
	t.Parallel()

	t.Run("IsFetchedOnceForAFloodOfUnknownIDs", func(t *testing.T) {
		t.Parallel()
		i := newIssuer(t)
		for n := range 50 {
			_, err := i.Verify(t.Context(), token(t, i.claims(nil), 0, fmt.Sprint("unknown", n)))
			requireRefused(t, err)
		}
		require.Equal(t, 1, i.fetches)
		_, err := i.Verify(t.Context(), token(t, i.claims(nil), 0, "first"))
		require.NoError(t, err)
		require.Equal(t, 1, i.fetches)
	})

	t.Run("LearnsANewKeyAndForgetsAnOldOne", func(t *testing.T) {
		t.Parallel()
		i := newIssuer(t)
		_, err := i.Verify(t.Context(), token(t, i.claims(nil), 0, "first"))
		require.NoError(t, err)
		i.set(func() { i.keys = []string{"gone", "second"}; i.clock = i.clock.Add(fetchEvery) })

		_, err = i.Verify(t.Context(), token(t, i.claims(nil), 1, "second"))
		require.NoError(t, err)
		_, err = i.Verify(t.Context(), token(t, i.claims(nil), 0, "first"))
		requireRefused(t, err)
		require.Equal(t, 2, i.fetches)

		i.set(func() { i.keys = []string{"gone"}; i.clock = i.clock.Add(freshFor) })
		_, err = i.Verify(t.Context(), token(t, i.claims(nil), 1, "second"))
		requireRefused(t, err)
	})

	for name, fault := range map[string]http.HandlerFunc{
		"IsUnreachable":      func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"Answers500":         func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"LeadsElsewhere":     func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/x", http.StatusFound) },
		"AnswersWithGarbage": func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("<html>")) },
		"HasNoKeys":          func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(`{"keys": []}`)) },
		"IsEndless":          func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(strings.Repeat(" ", maxKeySet+1) + "{}")) },
	} {
		t.Run("IsUnavailableWhileItsIssuer"+name, func(t *testing.T) {
			t.Parallel()
			i := newIssuer(t)
			i.set(func() { i.answer = fault })
			good := token(t, i.claims(nil), 0, "first")
			for range 3 {
				_, err := i.Verify(t.Context(), good)
				require.True(t, apierror.HasCode(err, apierror.CodeUnavailable), err)
				require.ErrorContains(t, err, "Try again in 10 s.")
			}
			require.LessOrEqual(t, i.fetches, 2, "http.Client repeats a GET whose connection broke")

			i.set(func() { i.answer = nil; i.clock = i.clock.Add(fetchEvery) })
			_, err := i.Verify(t.Context(), good)
			require.NoError(t, err)

			i.set(func() { i.answer = fault; i.clock = i.clock.Add(freshFor) })
			_, err = i.Verify(t.Context(), token(t, i.claims(nil), 0, "first"))
			require.NoError(t, err, "known keys serve on")
			i.set(func() { i.clock = i.clock.Add(staleFor) })
			_, err = i.Verify(t.Context(), token(t, i.claims(nil), 0, "first"))
			require.True(t, apierror.HasCode(err, apierror.CodeUnavailable), err)
		})
	}
}

func requireRefused(t *testing.T, err error) {
	t.Helper()
	require.True(t, apierror.HasCode(err, apierror.CodeUnauthenticated), "%v", err)
	require.ErrorContains(t, err, "This identity token does not register a machine: ")
}
