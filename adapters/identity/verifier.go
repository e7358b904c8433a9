package identity

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"golang.org/x/time/rate"
)

const (
	// GoogleKeys is the address of the keys with which Google signs.
	GoogleKeys = "https://www.googleapis.com/oauth2/v3/certs"
	googleIs   = "https://accounts.google.com"

	// maxAge is how old a token may be. A machine gets a new one whenever it asks.
	maxAge = 10 * time.Minute
	// maxAhead is how far the issuer's clock may be ahead of ours.
	maxAhead = time.Minute
	// maxToken bounds a token, in bytes.
	maxToken = 8 << 10
	// perSecond is how many tokens each process verifies, and burst how many at once.
	perSecond, burst = 50, 200
)

// Config says which machines may register.
type Config struct {
	// Audience is what tokens must be made for: the address of this deployment, so that a token
	// for another service is of no use here.
	Audience string
	// Projects are the ids of the projects whose machines may register. None may if it is empty.
	Projects []string
	// Accounts are the e-mail addresses of the service accounts that machines must run as. Empty
	// allows any.
	Accounts []string
	// KeysURL is the address of the issuer's keys; empty means GoogleKeys.
	KeysURL string
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Verifier verifies the identity of machines of Compute Engine.
type Verifier struct {
	config Config
	tokens *oidc.IDTokenVerifier
	limit  *rate.Limiter
}

// New returns a Verifier. It calls nothing yet.
func New(config Config) *Verifier {
	if config.KeysURL == "" {
		config.KeysURL = GoogleKeys
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	return &Verifier{
		config: config,
		tokens: oidc.NewVerifier(googleIs, newKeySet(config.KeysURL, config.Now), &oidc.Config{
			SkipClientIDCheck: true, SupportedSigningAlgs: []string{oidc.RS256}, Now: config.Now,
		}),
		limit: rate.NewLimiter(perSecond, burst),
	}
}

// Is reports whether a secret has the form of an identity token, which no key has.
func Is(secret string) bool {
	return strings.HasPrefix(secret, "eyJ") && strings.Count(secret, ".") == 2 && len(secret) <= maxToken
}

// claims are those of a token that oidc does not check.
type claims struct {
	Email         string `json:"email"`
	EmailVerified bool   `json:"email_verified"`
	Google        struct {
		Machine struct {
			Project string `json:"project_id"`
			Zone    string `json:"zone"`
			ID      string `json:"instance_id"`
			Name    string `json:"instance_name"`
		} `json:"compute_engine"`
	} `json:"google"`
}

// Verify returns the machine that a token is about. It returns UNAUTHENTICATED with a reason for
// a token that proves nothing, RATE_LIMITED if too many come, and UNAVAILABLE while the keys that
// verify it cannot be read.
func (v *Verifier) Verify(ctx context.Context, token string) (*jobs.Machine, error) {
	if !v.limit.Allow() {
		return nil, apierror.Later(apierror.CodeRateLimited, time.Second, "Too many machines register at once.")
	}
	keys := &carrier{}
	verified, err := v.tokens.Verify(context.WithValue(ctx, carrierKey{}, keys), token)
	if keys.err != nil {
		return nil, keys.err
	}
	var expired *oidc.TokenExpiredError
	switch {
	case errors.As(err, &expired):
		return nil, refuse("it has expired")
	case err != nil:
		slog.InfoContext(ctx, "an identity token is refused", "error", err)
		return nil, refuse("its signature or issuer is wrong: it must be signed by Google")
	}
	return v.examine(verified, token)
}

// examine checks what oidc does not.
func (v *Verifier) examine(verified *oidc.IDToken, token string) (*jobs.Machine, error) {
	var c claims
	if err := verified.Claims(&c); err != nil {
		return nil, refuse("its claims cannot be read")
	}
	m := c.Google.Machine
	now := v.config.Now()
	switch {
	case len(verified.Audience) != 1:
		return nil, refuse("it must be for one audience")
	case !v.isFor(verified.Audience[0]):
		return nil, refuse("its audience is wrong: it must be %s", v.config.Audience)
	case verified.IssuedAt.After(now.Add(maxAhead)):
		return nil, refuse("it is from the future: compare the clocks")
	case verified.IssuedAt.Before(now.Add(-maxAge)):
		return nil, refuse("it is older than %.0f minutes", maxAge.Minutes())
	case !placeName.MatchString(m.Project), !placeName.MatchString(m.Zone), !placeName.MatchString(m.ID), !placeName.MatchString(m.Name):
		return nil, refuse("it names no machine: it must be made with format=full")
	case !slices.Contains(v.config.Projects, m.Project):
		return nil, refuse("machines of its project may not register (REELAY_GCE_IDENTITY_PROJECTS)")
	case len(v.config.Accounts) > 0 && (!c.EmailVerified || !slices.Contains(v.config.Accounts, c.Email)):
		return nil, refuse("machines of its service account may not register (REELAY_GCE_IDENTITY_ACCOUNTS)")
	}
	hash := sha256.Sum256([]byte(token[:strings.LastIndexByte(token, '.')])) // what is signed: a signature has other spellings
	return &jobs.Machine{
		Provider: "gce", Project: m.Project, Zone: m.Zone, ID: m.ID, Name: m.Name, Token: hash[:], Expires: verified.Expiry,
	}, nil
}

// isFor reports whether a token is for this deployment. What follows a # is the machine's own: it
// makes each token a new one, also where the machine's metadata server keeps them for a while.
func (v *Verifier) isFor(audience string) bool {
	own, ok := strings.CutPrefix(audience, v.config.Audience)
	return ok && (own == "" || own[0] == '#')
}

// placeName is the form of projects, zones, ids and names. Projects of old domains have a colon.
var placeName = regexp.MustCompile(`^[a-z0-9][a-z0-9.:-]{0,127}$`)

// IsProject reports whether an id has the form of a project's.
func IsProject(id string) bool { return placeName.MatchString(id) }

func refuse(format string, args ...any) error {
	return apierror.New(apierror.CodeUnauthenticated, "This identity token does not register a machine: "+format+".", args...)
}
