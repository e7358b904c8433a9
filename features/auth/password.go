package auth

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/alexedwards/argon2id"
	"github.com/reelay/reelay/internal/apierror"
	"golang.org/x/text/unicode/norm"
)

const (
	// minPassword and maxPassword bound a password, in characters. There are no rules about
	// kinds of characters: length is what counts.
	minPassword = 12
	maxPassword = 256
)

// hashing is OWASP's minimum for argon2id: 19 MiB and about 30 ms of a core.
var hashing = &argon2id.Params{Memory: 19 << 10, Iterations: 2, Parallelism: 1, SaltLength: 16, KeyLength: 32}

// hashers bounds the hashes that are computed at once in this process, and so their memory.
var hashers = make(chan struct{}, runtime.NumCPU())

// noPassword is compared with the password of an unknown member, so that the response takes as
// long as for a known one.
var noPassword = sync.OnceValues(func() (string, error) {
	return argon2id.CreateHash("no member has this password", hashing)
})

func withHasher[T any](ctx context.Context, run func() (T, error)) (T, error) {
	select {
	case hashers <- struct{}{}:
		defer func() { <-hashers }()
		return run()
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// hashPassword returns the hash to store, or INVALID_INPUT for a password that is too short or
// too long, or that is the member's own name.
func hashPassword(ctx context.Context, password string, known ...string) (string, error) {
	if n := utf8.RuneCountInString(password); !utf8.ValidString(password) || n < minPassword || n > maxPassword {
		return "", apierror.Invalid("password", "A password must have %d to %d characters.", minPassword, maxPassword)
	}
	for _, word := range known {
		if strings.EqualFold(strings.TrimSpace(password), word) {
			return "", apierror.Invalid("password", "The password must not be your name or your e-mail address.")
		}
	}
	return withHasher(ctx, func() (string, error) {
		hash, err := argon2id.CreateHash(norm.NFC.String(password), hashing)
		if err != nil {
			return "", fmt.Errorf("hash a password: %w", err)
		}
		return hash, nil
	})
}

// isPassword reports whether a hash is of the password. An empty hash matches none, and takes
// as long.
func isPassword(ctx context.Context, password, hash string) (bool, error) {
	if len(password) > 4*maxPassword {
		return false, nil // no password is that long, whoever sends it
	}
	return withHasher(ctx, func() (bool, error) {
		stored := hash
		if hash == "" {
			var err error
			if stored, err = noPassword(); err != nil {
				return false, err
			}
		}
		same, err := argon2id.ComparePasswordAndHash(norm.NFC.String(password), stored)
		if err != nil {
			return false, fmt.Errorf("compare a password: %w", err)
		}
		return same && hash != "", nil
	})
}

const (
	// maxTriesOfAddress and maxTriesOfMember are how many wrong passwords one address may send
	// and one member may receive in a minute, at each API process.
	maxTriesOfAddress = 20
	maxTriesOfMember  = 10
	// maxTriesAudited bounds the failed logins that are written to the audit log in a minute.
	maxTriesAudited = 60
	// maxTriesKept bounds the memory of the counts.
	maxTriesKept = 10_000
)

var (
	errTooManyTries = apierror.Later(apierror.CodeRateLimited, time.Minute,
		"Too many wrong passwords. Wait a minute, then try again, or log in with a key.")
	errWrongLogin = apierror.New(apierror.CodeUnauthenticated, "The e-mail address or the password is wrong.")
)

// tries counts failed logins, per minute. The zero value is ready.
type tries struct {
	mu    sync.Mutex
	since time.Time
	count map[string]int
	total int
}

// begin counts a try by an address for a member as failed, until it succeeds. It returns
// RATE_LIMITED after too many, and whether a failure is to be audited.
func (t *tries) begin(address, email string, now time.Time) (succeed func(), audited bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count == nil || now.Sub(t.since) > time.Minute || len(t.count) >= maxTriesKept {
		t.since, t.count, t.total = now, map[string]int{}, 0
	}
	from, of := "address "+network(address), "member "+email
	if t.count[from] >= maxTriesOfAddress || t.count[of] >= maxTriesOfMember {
		return nil, false, errTooManyTries
	}
	t.count[from]++
	t.count[of]++
	t.total++
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.count[from] = max(0, t.count[from]-1)
		delete(t.count, of)
	}, t.total <= maxTriesAudited, nil
}

// network returns the part of a remote address (host:port) that one party controls: an IPv4
// address, or the first half of an IPv6 address.
func network(remote string) string {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return remote
	}
	address := at.Addr().Unmap()
	if address.Is4() {
		return address.String()
	}
	half, err := address.WithZone("").Prefix(64)
	if err != nil {
		return address.String()
	}
	return half.String()
}
