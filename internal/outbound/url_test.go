package outbound_test

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/reelay/reelay/internal/outbound"
	"github.com/stretchr/testify/require"
)

func TestCheckURL(t *testing.T) {
	t.Parallel()

	never := []string{
		// not an absolute https URL
		"", " ", "x", "/path", "//host.example/", "host.example", "http://host.example/", "ftp://host.example/", "file:///etc/passwd",
		"gopher://host.example/", "javascript:alert(1)", "https:host.example", "https:///path", "https://", "https://host.example/" +
			strings.Repeat("a", 2028),
		// more than a host and a path
		"https://user:pw@host.example/", "https://user@host.example/", "https://@host.example/", "https://host.example/#f",
		"https://host.example/#",
		`https://h\@evil.example/`, `https://evil.example\@host.example/`, "https://host.example%00/", "https://ho\tst.example/",
		"https://host.example\n/",
		"https://host.example/a b", "https://host.example/\x00", "https://host.example/\xff", "https://ho st.example/",
		// ports of other services
		"https://host.example:0/", "https://host.example:22/", "https://host.example:25/", "https://host.example:80/",
		"https://host.example:99999/",
		"https://host.example:-1/", "https://host.example:/", "https://host.example:+443/", "https://host.example:65536/",
		// this machine and the network around it
		"https://0.0.0.0/", "https://[::]/", "https://10.0.0.1/", "https://172.16.0.1/", "https://192.168.1.1/", "https://[fc00::1]/",
		"https://[fd00::1]/",
		"https://[fe80::1]/", "https://[fe80::1%25eth0]/", "https://[fec0::1]/", "https://[ff02::1]/", "https://255.255.255.255/",
		"https://224.0.0.1/",
		// metadata
		"https://169.254.169.254/", "https://metadata.google.internal/", "https://metadata/", "https://[fd20:ce::254]/", "https://168.63.129.16/",
		"https://100.100.100.200/", "https://METADATA.google.INTERNAL./",
		// other ways to write an address
		"https://2130706433/", "https://0x7f000001/", "https://0177.0.0.1/", "https://127.1/", "https://0/", "https://0x7f.1/",
		"https://1.2.3.0x4/",
		"https://0x/", "https://127.0.0.1./", "https://010.8.8.8/", "https://8.8.8.08/", "https://１２７.0.0.1/", "https://host。example/",
		"https://%31%32%37.0.0.1/",
		"https://[::ffff:10.0.0.1]/", "https://[::ffff:a9fe:a9fe]/", "https://[::10.0.0.1]/", "https://[64:ff9b::7f00:1]/",
		"https://[64:ff9b:1::7f00:1]/",
		"https://[2002:7f00:1::]/", "https://[2001::1]/", "https://[100::1]/",
		// special ranges
		"https://100.64.0.1/", "https://198.18.0.1/", "https://192.0.0.1/", "https://192.0.2.1/", "https://198.51.100.1/", "https://203.0.113.1/",
		"https://240.0.0.1/", "https://[2001:db8::1]/", "https://[3fff::1]/",
		// names
		"https://printer/", "https://db.internal/", "https://nas.local/", "https://router.lan/", "https://x.localhost/", "https://host..example/",
		"https://.example/",
		"https://-/", "https://ho*st.example/", "https://" + strings.Repeat("a", 64) + ".example/",
	}
	local := []string{ // only where loopback is allowed
		"http://localhost/", "http://localhost:8080/hook", "http://127.0.0.1:9000/", "http://[::1]:9000/", "http://LOCALHOST:80/",
		"https://localhost./",
		"https://127.0.0.1/", "https://[::1]/", "https://[::ffff:127.0.0.1]/", "http://127.8.9.10/",
	}
	always := []string{
		"https://host.example/", "https://host.example", "https://HOST.example:443/a%20b?c=d&e=%23", "https://host.example:8443/",
		"https://a_b.host.example./",
		"https://8.8.8.8/", "https://[2606:4700::1111]:8443/", "https://xn--bcher-kva.example/", "https://1e100.example/",
		"https://host.example/?u=https://10.0.0.1/",
		"https://127.0.0.1.nip.example/", // the client checks where it leads
	}

	public, laptop := outbound.Policy{}, outbound.Policy{AllowLoopback: true}

	for _, raw := range never {
		_, err := public.CheckURL(raw)
		require.Error(t, err, raw)
		_, err = laptop.CheckURL(raw)
		require.Error(t, err, raw)
	}
	for _, raw := range local {
		_, err := public.CheckURL(raw)
		require.Error(t, err, raw)
		_, err = laptop.CheckURL(raw)
		require.NoError(t, err, raw)
	}
	for _, raw := range always {
		u, err := public.CheckURL(raw)
		require.NoError(t, err, raw)
		require.NotEmpty(t, u.Hostname())
		_, err = laptop.CheckURL(raw)
		require.NoError(t, err, raw)
	}
}

func TestCheckURL_RefusesInSentencesWithoutRepeatingTheURL(t *testing.T) {
	t.Parallel()

	for _, raw := range []string{"https://user:hush@host.example/", "ftp://hush.example/", "https://10.0.0.1/hush", "https://hush.example:22/",
		"https://hush/"} {
		_, err := outbound.Policy{}.CheckURL(raw)

		var refusal outbound.Refusal
		require.ErrorAs(t, err, &refusal, raw)
		require.NotContains(t, err.Error(), "hush")
		require.True(t, strings.HasSuffix(err.Error(), "."), err)
	}
}

func TestCheckURL_SaysWhichSchemesItAccepts(t *testing.T) {
	t.Parallel()

	for _, raw := range []string{"ftp://host.example/", "ftp://10.0.0.1/", "ftp://user:pw@host.example/", "file:///etc/passwd",
		"gopher://host.example/", "javascript:alert(1)", "data:image/png;base64,AAAA"} {
		_, err := outbound.Policy{}.CheckURL(raw)
		require.EqualError(t, err, "The URL must begin with https://.", raw)
		_, err = outbound.Policy{AllowLoopback: true}.CheckURL(raw)
		require.EqualError(t, err, "The URL must begin with https://, or with http:// for this machine itself (localhost).", raw)
	}
}

func TestExcept(t *testing.T) {
	t.Parallel()
	before := outbound.Policy{AllowLoopback: true}.Except("reelay.example:443")
	p := before.Except("0.0.0.0:8080", "[2606:4700::1111]:8443", "no address")

	for _, raw := range []string{
		"https://reelay.example/", "https://REELAY.example.:443/graphql", "http://localhost:8080/", "http://127.0.0.1:8080/",
		"http://127.9.9.9:8080/", "http://[::1]:8080/",
		"https://[::ffff:127.0.0.1]:8080/", "https://[2606:4700:0::1111]:8443/",
	} {
		_, err := p.CheckURL(raw)
		require.ErrorIs(t, err, outbound.ErrOwn, raw)
	}
	for _, raw := range []string{"https://reelay.example:8443/", "https://www.reelay.example/", "http://localhost:8081/", "http://localhost/",
		"https://[2606:4700::1111]/"} {
		_, err := p.CheckURL(raw)
		require.NoError(t, err, raw)
	}
	_, err := before.CheckURL("http://localhost:8080/")
	require.NoError(t, err, "a policy does not change")
}

// cAddress parses an IPv4 address as the C library does: one to four decimal, octal or
// hexadecimal numbers, of which the last fills the remaining bytes.
func cAddress(host string) (netip.Addr, bool) {
	parts := strings.Split(strings.TrimSuffix(host, "."), ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var all uint64
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 0, 32)
		if err != nil {
			return netip.Addr{}, false
		}
		if i == len(parts)-1 {
			all += n
		} else {
			all += n << (24 - 8*i)
		}
	}
	return netip.AddrFrom4([4]byte{byte(all >> 24), byte(all >> 16), byte(all >> 8), byte(all)}), true
}

func FuzzCheckURL(f *testing.F) {
	for _, seed := range []string{
		"https://host.example/", "https://127.1/", "https://0x7f.0.0.1:443/", "https://[::ffff:7f00:1]/", "https://017700000001/",
		"https://2130706433./",
		"https://a@b/", "https://[fe80::1%25lo]/", "https://8.8.8.8:8443/?x#y", "http://localhost:80", "https://１.example",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := outbound.Policy{}.CheckURL(raw)
		if err != nil {
			return
		}
		if u.Scheme != "https" || u.User != nil || u.Fragment != "" || u.Hostname() == "" {
			t.Fatalf("%q was accepted as %v", raw, u)
		}
		again, err := url.Parse(u.String())
		if err != nil || again.Host != u.Host {
			t.Fatalf("%q is first read as %v and then as %v, %v", raw, u, again, err)
		}
		literal, err := netip.ParseAddr(u.Hostname())
		if err != nil {
			if a, ok := cAddress(u.Hostname()); ok {
				t.Fatalf("%q is %v for a C library", raw, a)
			}
			return
		}
		literal = literal.Unmap()
		if literal.IsPrivate() || literal.IsLoopback() || literal.IsLinkLocalUnicast() || literal.IsMulticast() || literal.IsUnspecified() ||
			literal.Zone() != "" {
			t.Fatalf("%q leads to %v", raw, literal)
		}
	})
}

func TestQuery(t *testing.T) {
	t.Parallel()

	for query, want := range map[string]string{
		"q=ä€&x=a\"b": "q=%C3%A4%E2%82%AC&x=a%22b", "a=%20b%c3%A4": "a=%20b%c3%A4", "a=100%": "a=100%25", "a=%zz%4": "a=%25zz%254",
		"a=<b>&c={d}|e\\f^g`": "a=%3Cb%3E&c=%7Bd%7D%7Ce%5Cf%5Eg%60", "a[]=1&b=c+d;e/f?g:h@i,j!k$l'(m)*": "a[]=1&b=c+d;e/f?g:h@i,j!k$l'(m)*",
	} {
		u, err := outbound.Policy{}.CheckURL("https://host.example/путь?" + query)

		require.NoError(t, err, query)
		require.Equal(t, want, u.RawQuery)
		again, err := outbound.Policy{}.CheckURL(u.String())
		require.NoError(t, err)
		require.Equal(t, u.String(), again.String(), "it is encoded once")
	}
}
