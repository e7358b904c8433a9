package outbound

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Refusal describes an invalid URL for its author.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// ErrNotPublic means that a URL leads to an address that is not on the public
// internet.
const ErrNotPublic = Refusal("The URL leads to an address that is not public.")

// MaxURLBytes is the maximum length of a URL.
const MaxURLBytes = 2048

// privateNames are suffixes of names that only exist inside a network, such as those of
// metadata servers.
var privateNames = []string{"localhost", "local", "localdomain", "internal", "intranet", "lan", "home.arpa"}

// CheckURL parses the absolute URL of a customer, or returns a Refusal. It resolves no
// name: the client checks the address whenever it connects.
func (p Policy) CheckURL(raw string) (*url.URL, error) {
	switch {
	case raw == "":
		return nil, Refusal("The URL is empty.")
	case len(raw) > MaxURLBytes:
		return nil, Refusal(fmt.Sprintf("A URL can have at most %d bytes; this one has %d.", MaxURLBytes, len(raw)))
	case !utf8.ValidString(raw) || strings.ContainsFunc(raw, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }):
		return nil, Refusal("The URL holds a space, a control character or a byte that is not UTF-8: percent-encode it.")
	case strings.Contains(raw, "#"):
		return nil, Refusal("The URL has a fragment (#…), which no server is ever sent: leave it out.")
	}
	u, err := url.Parse(raw)
	if err == nil && u.Scheme != "" && u.Scheme != "https" && u.Scheme != "http" {
		return nil, p.errScheme()
	}
	if err != nil || u.Opaque != "" || u.Host == "" {
		return nil, Refusal("This is not an absolute URL: write https://host/path.")
	}
	u.RawQuery = encodedQuery(u.RawQuery)
	return u, p.checkParsed(u)
}

// encodedQuery percent-encodes what a URL cannot have in its query, as url.URL does in the path.
// What is encoded already stays.
func encodedQuery(query string) string {
	var out strings.Builder
	for i := range len(query) {
		c := query[i]
		escape := c == '%' && i+2 < len(query) && isHexDigit(query[i+1]) && isHexDigit(query[i+2])
		if c <= ' ' || c >= 0x7f || strings.IndexByte("\"<>\\^`{|}", c) >= 0 || c == '%' && !escape {
			fmt.Fprintf(&out, "%%%02X", c)
		} else {
			out.WriteByte(c)
		}
	}
	return out.String()
}

func isHexDigit(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}

func (p Policy) checkParsed(u *url.URL) error {
	if u.User != nil {
		return Refusal("The URL holds a user or password: leave them out.")
	}
	if u.Scheme != "https" && u.Scheme != "http" {
		return p.errScheme()
	}
	local, err := p.checkHost(u.Hostname())
	if err != nil {
		return err
	}
	if u.Scheme == "http" && !local {
		return p.errScheme()
	}
	if err := checkPort(u); err != nil {
		return err
	}
	if p.own[place(u.Hostname(), cmp.Or(u.Port(), map[string]string{"https": "443", "http": "80"}[u.Scheme]))] {
		return ErrOwn
	}
	return nil
}

func (p Policy) errScheme() error {
	if p.AllowLoopback {
		return Refusal("The URL must begin with https://, or with http:// for this machine itself (localhost).")
	}
	return Refusal("The URL must begin with https://.")
}

// checkHost reports whether the host is this machine, if the policy allows that.
func (p Policy) checkHost(host string) (local bool, err error) {
	if literal, err := netip.ParseAddr(host); err == nil {
		if !p.allows(literal) {
			return false, ErrNotPublic
		}
		return literal.Unmap().IsLoopback(), nil
	}
	name := strings.TrimSuffix(strings.ToLower(host), ".")
	if !validName(name) {
		return false, Refusal("The URL's host is neither a name (letters, digits and hyphens; others as xn--…) nor a whole IP address.")
	}
	if p.AllowLoopback && name == "localhost" {
		return true, nil
	}
	if !strings.Contains(name, ".") {
		return false, ErrNotPublic // such a name only exists inside a network
	}
	for _, private := range privateNames {
		if strings.HasSuffix(name, "."+private) {
			return false, ErrNotPublic
		}
	}
	return false, nil
}

// validName reports whether this is a DNS name and not another spelling of an IP
// address: the resolver of the C library reads 2130706433, 127.1, 0177.0.0.1 and
// 0x7f000001 as 127.0.0.1.
func validName(name string) bool {
	if len(name) > 253 {
		return false
	}
	labels := strings.Split(name, ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	last := labels[len(labels)-1]
	return strings.Trim(last, "0123456789") != "" && !isHex(last)
}

func isHex(label string) bool {
	digits, prefixed := strings.CutPrefix(label, "0x")
	return prefixed && strings.Trim(digits, "0123456789abcdef") == ""
}

// checkPort refuses ports below 1024 except those of HTTP and HTTPS, since other services
// listen there.
func checkPort(u *url.URL) error {
	text := u.Port()
	if text == "" {
		if strings.HasSuffix(u.Host, ":") {
			return Refusal("The URL has a colon after its host but no port.")
		}
		return nil
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port < 1024 && port != 443 && !(port == 80 && u.Scheme == "http") {
		return Refusal("The URL's port must be 443 or from 1024 to 65535.")
	}
	return nil
}
