// Package outbound calls the URLs that customers give: webhooks and input images.
//
// Such a URL can lead anywhere, even into our own network (server-side request forgery).
// So it is checked twice: as text when it is saved, so that its author sees the error, and
// on every connection, by the resolved address. The client follows no redirects, uses no
// proxy, and limits the time of a call and the size of the response header. A caller that
// reads a body limits it with [ReadAll].
package outbound

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Policy says which addresses may be called.
type Policy struct {
	// AllowLoopback allows calls to this machine, even with plain HTTP. It is for a laptop,
	// never for a server with untrusted users.
	AllowLoopback bool
	// own are Reelay's own addresses; see Except.
	own map[string]bool
}

// ErrOwn means that a URL leads to Reelay itself, which would cause an endless loop.
const ErrOwn = Refusal("The URL leads to Reelay itself: name a server of your own.")

// Except returns the policy without these addresses (host:port) of Reelay itself.
func (p Policy) Except(addresses ...string) Policy {
	own := map[string]bool{}
	maps.Copy(own, p.own)
	for _, address := range addresses {
		if host, port, err := net.SplitHostPort(address); err == nil {
			own[place(host, port)] = true
		}
	}
	p.own = own
	return p
}

// Own returns the addresses of Except, sorted.
func (p Policy) Own() []string { return slices.Sorted(maps.Keys(p.own)) }

// place is the canonical form of a host and a port. All loopback addresses are the same
// place, because a server at 0.0.0.0 listens on each.
func place(host, port string) string {
	name := strings.TrimSuffix(strings.ToLower(host), ".")
	if a, err := netip.ParseAddr(name); err == nil {
		name = a.Unmap().String()
		if a = a.Unmap(); a.IsLoopback() || a.IsUnspecified() {
			name = "localhost"
		}
	}
	return net.JoinHostPort(name, port)
}

// leadsHere reports whether this is one of Reelay's own addresses. It resolves their
// names, except for ports 80 and 443, where many hosts share an address.
func (p Policy) leadsHere(ctx context.Context, resolver *net.Resolver, to netip.AddrPort) bool {
	port := strconv.Itoa(int(to.Port()))
	if p.own[place(to.Addr().String(), port)] {
		return true
	}
	if port == "443" || port == "80" {
		return false
	}
	for at := range p.own {
		host, ownPort, _ := net.SplitHostPort(at)
		if ownPort != port {
			continue
		}
		addresses, err := resolver.LookupNetIP(ctx, "ip", host)
		if err == nil && slices.ContainsFunc(addresses, func(a netip.Addr) bool { return a.Unmap() == to.Addr().Unmap() }) {
			return true
		}
	}
	return false
}

// Client is an HTTP client that enforces a policy.
type Client struct{ *http.Client }

// errHere is the error of every failed call to this machine. A more exact error would
// reveal which ports are open.
var errHere = errors.New("this machine gave no HTTP answer")

// Do implements http.Client's.
func (c Client) Do(r *http.Request) (*http.Response, error) {
	var here atomic.Bool
	if query := encodedQuery(r.URL.RawQuery); query != r.URL.RawQuery {
		r = r.Clone(r.Context())
		r.URL.RawQuery = query
	}
	response, err := c.Client.Do(r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		ConnectStart: func(_, address string) {
			if to, err := netip.ParseAddrPort(address); err == nil && to.Addr().Unmap().IsLoopback() {
				here.Store(true)
			}
		},
		GotConn: func(got httptrace.GotConnInfo) {
			if to, ok := got.Conn.RemoteAddr().(*net.TCPAddr); ok && to.IP.IsLoopback() {
				here.Store(true)
			}
		},
	})))
	if refused := (Refusal("")); err != nil && here.Load() && !errors.As(err, &refused) && r.Context().Err() == nil {
		return nil, errHere
	}
	return response, err
}

// ErrTooLarge means that a body is longer than the limit.
var ErrTooLarge = errors.New("the body is too large")

const (
	connectTimeout = 10 * time.Second
	maxHeadBytes   = 32 << 10
	maxIdle        = 100
	maxIdlePerHost = 2
	idleTimeout    = 30 * time.Second
)

// Client returns an HTTP client whose calls, including the body, take no longer than
// timeout. It connects only to addresses that the policy allows, and otherwise fails with
// ErrNotPublic. It returns a redirect as the answer, uses no proxy, decompresses nothing and
// keeps no cookies. All failed calls to this machine return the same error.
func (p Policy) Client(timeout time.Duration) Client {
	// The C library's resolver may accept other spellings of an address.
	return Client{p.client(timeout, &net.Resolver{PreferGo: true})}
}

func (p Policy) client(timeout time.Duration, resolver *net.Resolver) *http.Client {
	dialer := &net.Dialer{Timeout: connectTimeout, Resolver: resolver, ControlContext: p.control(resolver)}
	return &http.Client{
		Timeout:       timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: guarded{p, &http.Transport{
			Proxy:                  nil,
			DialContext:            dialer.DialContext,
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:    connectTimeout,
			DisableCompression:     true,
			MaxResponseHeaderBytes: maxHeadBytes,
			MaxIdleConns:           maxIdle,
			MaxIdleConnsPerHost:    maxIdlePerHost,
			IdleConnTimeout:        idleTimeout,
		}},
	}
}

// control refuses to dial an address that is not allowed.
func (p Policy) control(resolver *net.Resolver) func(context.Context, string, string, syscall.RawConn) error {
	return func(ctx context.Context, network, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil || network != "tcp4" && network != "tcp6" || !p.allows(to.Addr()) {
			return ErrNotPublic
		}
		if p.leadsHere(ctx, resolver, to) {
			return ErrOwn
		}
		return nil
	}
}

// guarded checks the URL of each request again, because it may have been saved under
// another policy.
type guarded struct {
	policy Policy
	next   *http.Transport
}

func (g guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := g.policy.checkParsed(r.URL); err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	return g.next.RoundTrip(r)
}

func (g guarded) CloseIdleConnections() { g.next.CloseIdleConnections() }

// ReadAll reads a body to its end, or returns ErrTooLarge once it has more than
// limit bytes.
func ReadAll(body io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(body, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, ErrTooLarge
	}
	return data, nil
}

// Local reports whether a call failed because of this machine: it has no way to the network, or
// no file handle or port is left.
func Local(err error) bool {
	for _, own := range []error{syscall.ENETUNREACH, syscall.ENETDOWN, syscall.EMFILE, syscall.ENFILE, syscall.EADDRNOTAVAIL,
		syscall.ENOBUFS} {
		if errors.Is(err, own) {
			return true
		}
	}
	return false
}

// Reason describes, for the author of the URL, why a call failed. It contains neither the
// URL, which may hold a secret, nor the resolved addresses, which may be ours.
func Reason(err error) string {
	var (
		noName      *net.DNSError
		outdated    x509.CertificateInvalidError
		certificate *tls.CertificateVerificationError
		authority   x509.UnknownAuthorityError
		record      tls.RecordHeaderError
		alert       *net.OpError
		timeout     net.Error
	)
	switch {
	case errors.Is(err, ErrNotPublic):
		return "it leads to an address that is not public"
	case errors.Is(err, ErrOwn):
		return "it leads to Reelay itself"
	case errors.Is(err, errHere):
		return errHere.Error()
	case errors.Is(err, ErrTooLarge):
		return "the answer is too large"
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, os.ErrDeadlineExceeded):
		return "no complete answer arrived in time"
	case errors.As(err, &noName):
		return "its host has no address"
	case errors.As(err, &outdated) && outdated.Reason == x509.Expired:
		return "its TLS certificate has expired or is not valid yet"
	case errors.As(err, &certificate), errors.As(err, &authority):
		return "its TLS certificate is not valid"
	// The operation of an alert is "local error" or "remote error".
	case errors.As(err, &record), errors.As(err, &alert) && strings.HasSuffix(alert.Op, " error"), errors.Is(err, http.ErrSchemeMismatch):
		return "its server does not speak TLS correctly"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the connection was refused"
	}
	return "the connection failed"
}
