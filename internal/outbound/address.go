package outbound

import "net/netip"

// Public IPv6 addresses are in 2000::/3; private, link-local, mapped, translated (NAT64)
// and metadata addresses are outside. Within it, and in IPv4, these ranges are not public
// either. The list is explicit because the standard library's predicates cover only some
// of them.
var (
	internet6 = netip.MustParsePrefix("2000::/3")
	denied    = prefixes(
		"0.0.0.0/8",         // this network
		"10.0.0.0/8",        // private
		"100.64.0.0/10",     // carrier-grade NAT, and metadata of one cloud
		"127.0.0.0/8",       // loopback
		"168.63.129.16/32",  // a cloud's own service in each virtual machine
		"169.254.0.0/16",    // link-local, metadata
		"172.16.0.0/12",     // private
		"192.0.0.0/24",      // protocol assignments
		"192.0.2.0/24",      // documentation
		"192.88.99.0/24",    // relays of 6to4
		"192.168.0.0/16",    // private
		"198.18.0.0/15",     // benchmarks
		"198.51.100.0/24",   // documentation
		"203.0.113.0/24",    // documentation
		"224.0.0.0/4",       // multicast
		"240.0.0.0/4",       // reserved, broadcast
		"2001::/23",         // protocol assignments, Teredo
		"2001:db8::/32",     // documentation
		"2002::/16",         // 6to4: any IPv4 address
		"3fff::/20",         // documentation
		"2620:4f:8000::/48", // AS112
	)
)

func prefixes(texts ...string) []netip.Prefix {
	list := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		list[i] = netip.MustParsePrefix(text)
	}
	return list
}

// allows reports whether the policy allows a connection to the address.
func (p Policy) allows(a netip.Addr) bool {
	if !a.IsValid() || a.Zone() != "" {
		return false
	}
	a = a.Unmap()
	if p.AllowLoopback && a.IsLoopback() {
		return true
	}
	if a.Is6() && !internet6.Contains(a) {
		return false
	}
	for _, prefix := range denied {
		if prefix.Contains(a) {
			return false
		}
	}
	return true
}
