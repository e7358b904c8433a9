package identity

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"
)

// signers are made once, since making a key takes long.
var signers = sync.OnceValue(func() []*rsa.PrivateKey {
	var all []*rsa.PrivateKey
	for range 3 {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			panic(err)
		}
		all = append(all, key)
	}
	return all
})

// issuer signs tokens as Google does, and serves its keys.
type issuer struct {
	*Verifier
	mu      sync.Mutex
	clock   time.Time
	keys    []string // the ids of the keys that are served, each the signer of its index
	fetches int
	answer  http.HandlerFunc // answers instead, unless it is nil
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{clock: time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC), keys: []string{"first"}}
	server := httptest.NewServer(i)
	t.Cleanup(server.Close)
	i.Verifier = New(Config{
		Audience: "https://reelay.example", Projects: []string{"p", "other"}, Accounts: []string{"worker@p.iam.gserviceaccount.com"},
		KeysURL: server.URL, Now: i.now,
	})
	return i
}

func (i *issuer) now() time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.clock
}

func (i *issuer) set(change func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	change()
}

func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	i.fetches++
	answer := i.answer
	var set jose.JSONWebKeySet
	for n, id := range i.keys {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: signers()[n].Public(), KeyID: id, Algorithm: "RS256", Use: "sig"})
	}
	i.mu.Unlock()
	if answer != nil {
		answer(w, r)
		return
	}
	_ = json.NewEncoder(w).Encode(set)
}

type object = map[string]any

// claims returns those of a good token, with changes. A nil value removes one.
func (i *issuer) claims(changes object) object {
	machine := object{"project_id": "p", "zone": "us-central1-a", "instance_id": "1234567890123456789", "instance_name": "spot-1"}
	all := object{
		"iss": "https://accounts.google.com", "aud": "https://reelay.example", "sub": "1", "azp": "1",
		"email": "worker@p.iam.gserviceaccount.com", "email_verified": true,
		"iat": i.clock.Unix(), "exp": i.clock.Add(time.Hour).Unix(), "google": object{"compute_engine": machine},
	}
	for name, value := range changes {
		if _, ok := machine[name]; ok {
			machine[name] = value
			continue
		}
		all[name] = value
	}
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	return all
}

// token signs claims with the signer of an index, under the id of a key.
func token(t *testing.T, claims object, signer int, id string) string {
	t.Helper()
	return sign(t, claims, jose.RS256, signers()[signer], id)
}

func sign(t *testing.T, claims object, algorithm jose.SignatureAlgorithm, key any, id string) string {
	t.Helper()
	options := (&jose.SignerOptions{}).WithHeader("kid", id).WithType("JWT")
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, options)
	require.NoError(t, err)
	text, err := json.Marshal(claims)
	require.NoError(t, err)
	signed, err := signer.Sign(text)
	require.NoError(t, err)
	compact, err := signed.CompactSerialize()
	require.NoError(t, err)
	return compact
}
