package front

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

// Hosts are the host names at which the API answers. An empty list allows all.
type Hosts []string

// hostName is a name, or an IPv4 address.
var hostName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?$`)

// ReadHosts reads "reelay.example,api.internal".
func ReadHosts(text string) (Hosts, error) {
	var read Hosts
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

// Base finds out at which scheme and host a caller reaches this server, for the links
// that it is given: at the request's own, if REELAY_HOSTS names it, or if the public URL
// leads to loopback, where no other machine gets; else at the public URL. A request
// without TLS may have come through a proxy that ends it: only a port in the Host header
// that is not the public URL's shows that it did not.
func (h Hosts) Base(publicURL string) func(*http.Request) string {
	publicURL = strings.TrimSuffix(publicURL, "/")
	public := bareHost(HostPort(publicURL))
	local, secure := IsLoopback(public), strings.HasPrefix(publicURL, "https:")
	return func(r *http.Request) string {
		name := bareHost(r.Host)
		_, port, err := net.SplitHostPort(r.Host)
		scheme := "https://"
		if r.TLS == nil {
			scheme = "http://"
		}
		switch {
		case !hostName.MatchString(name) && !isAddress(name), err == nil && !ValidPort(port):
			return publicURL
		case !local && (name == public || !slices.Contains(h, name)):
			return publicURL
		case r.TLS == nil && secure && (err != nil || publicURL == "https://"+r.Host):
			return publicURL
		}
		return scheme + r.Host
	}
}

// IsLoopback reports whether a host name or address leads to this machine only.
func IsLoopback(name string) bool {
	address, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil && address.IsLoopback()
}

func isAddress(name string) bool {
	_, err := netip.ParseAddr(name)
	return err == nil
}

// Only answers requests to other hosts with 421, so that no page of a stranger
// whose name was made to lead here is answered. Who asks for the very address at
// which the connection came in, as a probe or our own agents do, was not led
// astray; and how we are is nobody's secret.
func (h Hosts) Only(publicURL string, next http.Handler) http.Handler {
	if len(h) == 0 {
		return next
	}
	h = append(slices.Clone(h), bareHost(HostPort(publicURL)))
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

// Origins are the hosts whose pages may call the APIs from a browser, besides the
// API's own: patterns of path.Match such as app.example or *.studio.example.
type Origins []string

// originPattern matches a name with wildcards, and a port if it is not the scheme's
// default.
var originPattern = regexp.MustCompile(`^[A-Za-z0-9_*]([A-Za-z0-9_.*-]*[A-Za-z0-9_*])?(:([0-9]{1,5}|\*))?$`)

// ReadOrigins reads "app.example,*.studio.example".
func ReadOrigins(text string) (Origins, error) {
	var read Origins
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

// Include reports whether an origin, as browsers send it, is one of them. "null", the
// origin of pages without a host, never is.
func (o Origins) Include(origin string) bool {
	page, err := url.Parse(origin)
	if err != nil || page.Host == "" {
		return false
	}
	return slices.ContainsFunc(o, func(pattern string) bool {
		matches, _ := path.Match(pattern, strings.ToLower(page.Host))
		return matches
	})
}

// Share lets pages of these origins call an API with a key. It never allows credentials,
// so these pages cannot use a login to the console.
func (o Origins) Share(api http.Handler) http.Handler {
	if len(o) == 0 {
		return api
	}
	return cors.New(cors.Options{
		AllowOriginFunc: o.Include,
		AllowedMethods:  []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete},
		AllowedHeaders:  []string{"*"}, // SDKs send their own headers
		ExposedHeaders:  []string{"ETag", "Location", "Retry-After"},
		MaxAge:          600,
	}).Handler(api)
}
