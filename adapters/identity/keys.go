package identity

import (
	"context"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/reelay/reelay/internal/apierror"
)

const (
	// fetchEvery is the shortest time between two fetches of the keys.
	fetchEvery = 10 * time.Second
	// freshFor is how long keys are used without a fetch. After that a key that the issuer has
	// withdrawn is no longer accepted, unless the issuer cannot be reached.
	freshFor = time.Hour
	// staleFor is how long keys are used while the issuer cannot be reached.
	staleFor = 24 * time.Hour
	// fetchTimeout and maxKeySet bound one fetch.
	fetchTimeout = 5 * time.Second
	maxKeySet    = 256 << 10
	// minBits is the size of the smallest RSA key that is accepted.
	minBits = 2048
)

// carrier takes an UNAVAILABLE to the caller of oidc, which does not wrap the error of a key set.
type (
	carrier    struct{ err error }
	carrierKey struct{}
)

var errForged = errors.New("no key of the issuer has made the signature")

// keySet is the issuer's public keys. It implements oidc.KeySet.
type keySet struct {
	url    string
	client *http.Client
	now    func() time.Time

	fetching sync.Mutex // held during a fetch: callers that need its result wait
	tried    time.Time  // when a fetch was last tried
	failed   error      // its error

	mu      sync.Mutex
	keys    jose.JSONWebKeySet
	fetched time.Time // when keys were fetched
}

func newKeySet(url string, now func() time.Time) *keySet {
	return &keySet{url: url, now: now, client: &http.Client{
		Timeout:       fetchTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// VerifySignature implements oidc.KeySet. The error is UNAVAILABLE if the issuer's keys cannot
// be read.
func (k *keySet) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	signed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.RS256})
	if err != nil || len(signed.Signatures) != 1 {
		return nil, errForged
	}
	key, err := k.find(ctx, signed.Signatures[0].Header.KeyID)
	if c, ok := ctx.Value(carrierKey{}).(*carrier); ok && apierror.HasCode(err, apierror.CodeUnavailable) {
		c.err = err
	}
	if err != nil {
		return nil, err
	}
	payload, err := signed.Verify(key)
	if err != nil {
		return nil, errForged
	}
	return payload, nil
}

// find returns the key with an id. It fetches the keys if they are old, or do not have it.
func (k *keySet) find(ctx context.Context, id string) (*rsa.PublicKey, error) {
	if key, age := k.known(id); key != nil && age < freshFor {
		return key, nil
	}
	k.fetching.Lock()
	defer k.fetching.Unlock()
	key, age := k.known(id)
	if now := k.now(); (key == nil || age >= freshFor) && now.Sub(k.tried) >= fetchEvery {
		k.tried, k.failed = now, nil
		// The fetch serves all callers, so it does not end with this one.
		keys, err := k.fetch(context.WithoutCancel(ctx))
		if err == nil {
			k.store(keys, now)
		} else {
			k.failed = err
			slog.WarnContext(ctx, "the keys that verify the identity of machines cannot be read", "url", k.url, "error", err)
		}
		key, age = k.known(id)
	}
	switch {
	case key == nil && k.failed != nil, age >= staleFor:
		return nil, apierror.Later(apierror.CodeUnavailable, fetchEvery, "The keys that verify the identity of machines cannot be read now.")
	case key == nil:
		return nil, errForged
	}
	return key, nil
}

func (k *keySet) store(keys jose.JSONWebKeySet, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keys, k.fetched = keys, now
}

// known returns the key with an id, or nil, and the time since the keys were fetched.
func (k *keySet) known(id string) (*rsa.PublicKey, time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	age := k.now().Sub(k.fetched)
	for _, key := range k.keys.Key(id) {
		if public, ok := key.Key.(*rsa.PublicKey); ok && public.N.BitLen() >= minBits && (key.Use == "" || key.Use == "sig") {
			return public, age
		}
	}
	return nil, age
}

func (k *keySet) fetch(ctx context.Context) (jose.JSONWebKeySet, error) {
	var keys jose.JSONWebKeySet
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, k.url, nil)
	if err != nil {
		return keys, err
	}
	answer, err := k.client.Do(r)
	if err != nil {
		return keys, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return keys, fmt.Errorf("%s answered %d", k.url, answer.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxKeySet+1))
	if err == nil && len(text) > maxKeySet {
		err = fmt.Errorf("the keys of %s have more than %d bytes", k.url, maxKeySet)
	}
	if err == nil {
		err = json.Unmarshal(text, &keys)
	}
	if err == nil && len(keys.Keys) == 0 {
		err = fmt.Errorf("%s has no keys", k.url)
	}
	return keys, err
}
