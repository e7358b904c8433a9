package servers

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/rs/cors"
)

// hosts are the host names at which the API answers. An empty list allows all.
type hosts []string

// hostName is a name, or an IPv4 address.
var hostName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?$`)

// readHosts reads "reelay.example,api.internal".
func readHosts(text string) (hosts, error) {
	var read hosts
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		if _, err := netip.ParseAddr(name); err != nil && (!hostName.MatchString(name) || len(name) > 253) {
			return nil, fmt.Errorf("%q is not a host name", name)
		}
		read = append(read, bareHost(name))
	}
	return read, nil
}

// bareHost returns a host in canonical form, without a port.
func bareHost(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	if address, err := netip.ParseAddr(host); err == nil {
		return address.Unmap().String()
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

// base finds out at which scheme and host a caller reaches this server, for the links
// that it is given: at the request's own, if REELAY_HOSTS names it, or if the public URL
// leads to loopback, where no other machine gets; else at the public URL. A request
// without TLS may have come through a proxy that ends it: only a port in the Host header
// that is not the public URL's shows that it did not.
func (h hosts) base(publicURL string) func(*http.Request) string {
	publicURL = strings.TrimSuffix(publicURL, "/")
	public := bareHost(hostPort(publicURL))
	local, secure := isLoopback(public), strings.HasPrefix(publicURL, "https:")
	return func(r *http.Request) string {
		name := bareHost(r.Host)
		_, port, err := net.SplitHostPort(r.Host)
		scheme := "https://"
		if r.TLS == nil {
			scheme = "http://"
		}
		switch {
		case !hostName.MatchString(name) && !isAddress(name), err == nil && !validPort(port):
			return publicURL
		case !local && (name == public || !slices.Contains(h, name)):
			return publicURL
		case r.TLS == nil && secure && (err != nil || publicURL == "https://"+r.Host):
			return publicURL
		}
		return scheme + r.Host
	}
}

func isLoopback(name string) bool {
	address, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil && address.IsLoopback()
}

func isAddress(name string) bool {
	_, err := netip.ParseAddr(name)
	return err == nil
}

// only answers requests to other hosts with 421, so that no page of a stranger
// whose name was made to lead here is answered. Who asks for the very address at
// which the connection came in, as a probe or our own agents do, was not led
// astray; and how we are is nobody's secret.
func (h hosts) only(publicURL string, next http.Handler) http.Handler {
	if len(h) == 0 {
		return next
	}
	h = append(slices.Clone(h), bareHost(hostPort(publicURL)))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked := bareHost(r.Host)
		at, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		switch {
		case slices.Contains(h, asked), at != nil && asked == bareHost(at.String()), r.URL.Path == "/healthz", r.URL.Path == "/readyz":
			next.ServeHTTP(w, r)
		default:
			http.Error(w, "This server does not go by the name in the Host header: use its public address, or add the name to REELAY_HOSTS.",
				http.StatusMisdirectedRequest)
		}
	})
}

// origins are the hosts whose pages may call the APIs from a browser, besides the
// API's own: patterns of path.Match such as app.example or *.studio.example.
type origins []string

// originPattern matches a name with wildcards, and a port if it is not the scheme's
// default.
var originPattern = regexp.MustCompile(`^[A-Za-z0-9_*]([A-Za-z0-9_.*-]*[A-Za-z0-9_*])?(:([0-9]{1,5}|\*))?$`)

// readOrigins reads "app.example,*.studio.example".
func readOrigins(text string) (origins, error) {
	var read origins
	for pattern := range strings.SplitSeq(text, ",") {
		if pattern = strings.TrimSpace(pattern); pattern == "" {
			continue
		}
		if !originPattern.MatchString(pattern) || len(pattern) > 253 {
			return nil, fmt.Errorf("%q is not a host", pattern)
		}
		read = append(read, strings.ToLower(pattern))
	}
	return read, nil
}

// include reports whether an origin, as browsers send it, is one of them. "null", the
// origin of pages without a host, never is.
func (o origins) include(origin string) bool {
	page, err := url.Parse(origin)
	if err != nil || page.Host == "" {
		return false
	}
	return slices.ContainsFunc(o, func(pattern string) bool {
		matches, _ := path.Match(pattern, strings.ToLower(page.Host))
		return matches
	})
}

// share lets pages of these origins call an API with a key. It never allows credentials,
// so these pages cannot use a login to the console.
func (o origins) share(api http.Handler) http.Handler {
	if len(o) == 0 {
		return api
	}
	return cors.New(cors.Options{
		AllowOriginFunc: o.include,
		AllowedMethods:  []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete},
		AllowedHeaders:  []string{"*"}, // SDKs send their own headers
		ExposedHeaders:  []string{"ETag", "Location", "Retry-After"},
		MaxAge:          600,
	}).Handler(api)
}
