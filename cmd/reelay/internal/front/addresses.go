package front

import (
	"cmp"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// Reachable returns the address at which this machine reaches a listener.
func Reachable(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return addr.String()
}

// MachineAddresses returns the addresses of this machine, except loopback, if the
// listener listens on all of them.
func MachineAddresses(addr net.Addr) []string {
	at, _ := addr.(*net.TCPAddr)
	if at == nil || !at.IP.IsUnspecified() {
		return nil
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil // the addresses are only informative
	}
	var found []string
	for _, each := range all {
		network, ok := each.(*net.IPNet)
		if ok && network.IP.IsGlobalUnicast() && (network.IP.To4() != nil || at.IP.To4() == nil) {
			found = append(found, network.IP.String())
		}
	}
	return found
}

// AddressesOf returns all addresses of a listener, as host:port.
func AddressesOf(addr net.Addr) []string {
	all := []string{addr.String()}
	for _, address := range MachineAddresses(addr) {
		all = append(all, net.JoinHostPort(address, strconv.Itoa(addr.(*net.TCPAddr).Port)))
	}
	return all
}

// Elsewhere returns the other URLs of a listener.
func Elsewhere(secure bool, addr net.Addr) []string {
	scheme := "http://"
	if secure {
		scheme = "https://"
	}
	var urls []string
	for _, address := range MachineAddresses(addr) {
		urls = append(urls, scheme+net.JoinHostPort(address, strconv.Itoa(addr.(*net.TCPAddr).Port)))
	}
	return urls
}

// HostPort returns the host:port of a URL or of a host:port, or "" for anything else.
func HostPort(raw string) string {
	if !strings.Contains(raw, "://") {
		return raw
	}
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" {
		return ""
	}
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), defaultPorts[u.Scheme]))
}

var defaultPorts = map[string]string{"https": "443", "http": "80", "postgres": "5432", "postgresql": "5432"}

// ValidPort reports whether port is the number of a port; 0 picks a free one.
func ValidPort(port string) bool {
	n, err := strconv.Atoi(port)
	return err == nil && n >= 0 && n <= 65535
}
