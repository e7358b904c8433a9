// Package signon logs people in at an OpenID provider, by the authorization code flow with
// PKCE.
package signon

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// Config names a provider, and this client of it.
type Config struct {
	// Issuer is the URL of the provider, without /.well-known.
	Issuer   string
	ClientID string
	// ClientSecret returns the secret of this client, which may change.
	ClientSecret func() string
	// RedirectURL is where the provider sends people back to.
	RedirectURL string
	// Scopes are asked for besides openid.
	Scopes []string
	// GroupsClaim is the claim with the person's groups: a list of strings, or one string.
	GroupsClaim string
}

// Provider is an OpenID provider. It is asked for its addresses when the first person logs in,
// so that a provider that is down does not keep this process from starting.
type Provider struct {
	config Config
	client *http.Client

	mu    sync.Mutex
	known *oidc.Provider
}

// ErrDown means that the provider does not answer, or not as OpenID Connect wants it.
var ErrDown = errors.New("the OpenID provider does not answer as it should")

// ErrRefused means that the provider's answer to a login is not valid for it.
var ErrRefused = errors.New("the answer of the OpenID provider is not valid")

// callTimeout bounds each call of the provider.
const callTimeout = 10 * time.Second

// New returns a provider. It does not call it.
func New(config Config) *Provider {
	return &Provider{config: config, client: &http.Client{Timeout: callTimeout}}
}

// Attempt is one login that has begun. It is kept by the browser that began it.
type Attempt struct {
	State, Nonce, Verifier string
}

// Claims is what the provider says of a person.
type Claims struct {
	Issuer, Subject string
	Email           string
	EmailVerified   bool
	Name            string
	Groups          []string
}

func (p *Provider) discover(ctx context.Context) (*oidc.Provider, context.Context, error) {
	ctx = oidc.ClientContext(ctx, p.client)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil {
		// The provider keeps the context to fetch keys later.
		found, err := oidc.NewProvider(context.WithoutCancel(ctx), p.config.Issuer)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: %w", ErrDown, err)
		}
		p.known = found
	}
	return p.known, ctx, nil
}

func (p *Provider) oauth(found *oidc.Provider) *oauth2.Config {
	return &oauth2.Config{
		ClientID: p.config.ClientID, ClientSecret: p.config.ClientSecret(), Endpoint: found.Endpoint(), RedirectURL: p.config.RedirectURL,
		Scopes: append([]string{oidc.ScopeOpenID}, p.config.Scopes...),
	}
}

// Begin returns the address at which a person logs in, and the attempt that Finish needs. It
// may return ErrDown.
func (p *Provider) Begin(ctx context.Context) (url string, attempt Attempt, err error) {
	found, _, err := p.discover(ctx)
	if err != nil {
		return "", attempt, err
	}
	attempt = Attempt{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier()}
	return p.oauth(found).AuthCodeURL(attempt.State, oidc.Nonce(attempt.Nonce), oauth2.S256ChallengeOption(attempt.Verifier)), attempt, nil
}

// Finish redeems the code with which the provider sent a person back. It checks the state, the
// nonce, and the signature, issuer, audience, authorized party and times of the token. It returns ErrRefused if
// one of them is wrong, or ErrDown.
func (p *Provider) Finish(ctx context.Context, attempt Attempt, state, code string) (*Claims, error) {
	if attempt.State == "" || subtle.ConstantTimeCompare([]byte(attempt.State), []byte(state)) != 1 {
		return nil, fmt.Errorf("%w: another state", ErrRefused)
	}
	found, ctx, err := p.discover(ctx)
	if err != nil {
		return nil, err
	}
	token, err := p.oauth(found).Exchange(ctx, code, oauth2.VerifierOption(attempt.Verifier))
	if wrong := (*oauth2.RetrieveError)(nil); errors.As(err, &wrong) && wrong.Response.StatusCode < 500 {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDown, err)
	}
	raw, _ := token.Extra("id_token").(string)
	id, err := found.Verifier(&oidc.Config{ClientID: p.config.ClientID}).Verify(ctx, raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if subtle.ConstantTimeCompare([]byte(attempt.Nonce), []byte(id.Nonce)) != 1 {
		return nil, fmt.Errorf("%w: another nonce", ErrRefused)
	}
	if err := p.authorized(id); err != nil {
		return nil, err
	}
	return p.claims(ctx, found, token, id)
}

// authorized refuses a token that was issued for another party, although this client is one of
// its audiences (OpenID Connect Core 1.0, section 3.1.3.7, steps 3 to 5). No other audience is
// trusted: a token for several must name this client as its authorized party.
func (p *Provider) authorized(id *oidc.IDToken) error {
	var claims struct {
		Party *string `json:"azp"`
	}
	if err := id.Claims(&claims); err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	switch {
	case claims.Party == nil && len(id.Audience) > 1:
		return fmt.Errorf("%w: a token for several audiences, without an authorized party (azp)", ErrRefused)
	case claims.Party != nil && *claims.Party != p.config.ClientID:
		return fmt.Errorf("%w: a token that was issued for another party (azp)", ErrRefused)
	}
	return nil
}

// claims reads the claims of a verified token. What it lacks is asked for at the provider's
// userinfo endpoint, if there is one.
func (p *Provider) claims(ctx context.Context, found *oidc.Provider, token *oauth2.Token, id *oidc.IDToken) (*Claims, error) {
	all := map[string]any{}
	if err := id.Claims(&all); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if (all["email"] == nil || all[p.config.GroupsClaim] == nil) && found.UserInfoEndpoint() != "" {
		info, err := found.UserInfo(ctx, oauth2.StaticTokenSource(token))
		if err == nil && info.Subject == id.Subject {
			more := map[string]any{}
			if err := info.Claims(&more); err != nil {
				return nil, fmt.Errorf("%w: %w", ErrRefused, err)
			}
			for name, value := range more {
				if all[name] == nil {
					all[name] = value
				}
			}
		}
	}
	claims := &Claims{Issuer: id.Issuer, Subject: id.Subject, Groups: stringsOf(all[p.config.GroupsClaim])}
	claims.Email, _ = all["email"].(string)
	claims.Name, _ = all["name"].(string)
	claims.EmailVerified, _ = all["email_verified"].(bool)
	return claims, nil
}

func stringsOf(claim any) (found []string) {
	switch v := claim.(type) {
	case string:
		return []string{v}
	case []any:
		for _, one := range v {
			if s, ok := one.(string); ok {
				found = append(found, s)
			}
		}
	}
	return found
}
