// Package redisurl opens the Redis that a URL names: one server, a primary that Sentinels
// watch, or a cluster. REDIS_URL is such a URL; docs/operators/redis.md describes it.
package redisurl

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/freshfile"
)

// Mode is how a Redis is run.
type Mode string

// The modes.
const (
	Server   Mode = "server"
	Sentinel Mode = "sentinel"
	Cluster  Mode = "cluster"
)

// schemes are those of a URL. With "rediss" in place of "redis", connections use TLS.
var schemes = map[string]Mode{"redis": Server, "redis+sentinel": Sentinel, "redis+cluster": Cluster}

// examples are shown where a URL is malformed.
var examples = map[Mode]string{
	Server:   "redis://user:password@host:6379/0",
	Sentinel: "redis+sentinel://user:password@one:26379,two:26379,three:26379/primary",
	Cluster:  "redis+cluster://user:password@one:6379,two:6379,three:6379",
}

// parameters are those of a URL, by mode.
var parameters = map[Mode][]string{
	Server:   {"password_file", "client_name"},
	Sentinel: {"db", "password_file", "sentinel_username", "sentinel_password", "sentinel_password_file", "client_name"},
	Cluster:  {"password_file", "client_name"},
}

// tlsParameters are those of all modes with TLS.
var tlsParameters = []string{"ca", "cert", "key", "server_name"}

// Address is where a Redis is, and how to connect to it.
type Address struct {
	Mode Mode
	// Hosts are host:port of the server, of the Sentinels, or of some nodes of the cluster.
	Hosts []string
	// Primary is the name by which the Sentinels know the primary.
	Primary string
	// TLS says that all connections use TLS, those to Sentinels included.
	TLS bool
	// User is the ACL user; empty for the default user.
	User string

	// Observe is called after each call of the clients that are opened; it may be nil. The results are ok,
	// refused, cancelled and error. A pipeline is one call.
	Observe func(result string, took time.Duration)

	database   int
	password   secret
	sentinel   login
	files      tlsFiles
	tls        *freshfile.File[*tls.Config] // of files
	clientName string
	newest     func() string // see Follow; may be nil
}

// login is a user and its password.
type login struct {
	user     string
	password secret
}

// Follow is Parse of a URL whose user and password may change: newest is called again for each connection.
// A new URL for other hosts changes nothing.
func Follow(newest func() string) (*Address, error) {
	a, err := Parse(newest())
	if err == nil {
		a.newest = newest
	}
	return a, err
}

// Parse reads a URL and the files that it names. An error says what to change, and repeats
// nothing of the URL, since any part may be a piece of the password.
func Parse(raw string) (*Address, error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	plain, encrypted := strings.CutPrefix(scheme, "rediss")
	if encrypted {
		scheme = "redis" + plain
	}
	a := &Address{Mode: schemes[scheme], TLS: encrypted}
	if !ok || a.Mode == "" {
		return nil, fmt.Errorf("it must be like %s, %s or %s, or begin with rediss for TLS",
			examples[Server], examples[Sentinel], examples[Cluster])
	}
	// net/url refuses several hosts.
	end := strings.IndexAny(rest+"/", "/?#")
	at := strings.LastIndex(rest[:end], "@")
	u, err := url.Parse("redis://" + rest[:at+1] + "hosts" + rest[end:])
	if err != nil || u.Fragment != "" {
		return nil, errors.New("its user, password and parameters must be percent-encoded, such as %40 for @, %2F for /, %3F for ? and %23 for #")
	}
	if a.Hosts, err = a.hosts(rest[at+1 : end]); err != nil {
		return nil, err
	}
	if err := a.path(u.Path); err != nil {
		return nil, err
	}
	a.User = u.User.Username()
	password, _ := u.User.Password()
	if err := a.query(u.RawQuery, password); err != nil {
		return nil, err
	}
	return a, a.check()
}

// defaultPorts are those of hosts without a port.
var defaultPorts = map[Mode]string{Server: "6379", Sentinel: "26379", Cluster: "6379"}

func (a *Address) hosts(list string) ([]string, error) {
	var hosts []string
	for host := range strings.SplitSeq(list, ",") {
		if u, err := url.Parse("redis://" + host); err == nil && u.Port() == "" {
			host = net.JoinHostPort(u.Hostname(), defaultPorts[a.Mode])
		}
		name, port, err := net.SplitHostPort(host)
		if n, notNumber := strconv.Atoi(port); err != nil || name == "" || strings.ContainsAny(name, " %") ||
			notNumber != nil || n < 1 || n > 65535 {
			return nil, fmt.Errorf("a host or its port is malformed: it must be like %s, and a password with /, ? or # must be percent-encoded",
				examples[a.Mode])
		}
		hosts = append(hosts, host)
	}
	if a.Mode == Server && len(hosts) > 1 {
		return nil, errors.New("it names several hosts: begin it with redis+sentinel or redis+cluster to say what they are")
	}
	return hosts, nil
}

// path reads the database of a server, or the name of the Sentinels' primary.
func (a *Address) path(path string) (err error) {
	name := strings.TrimPrefix(path, "/")
	switch {
	case a.Mode == Sentinel && name == "":
		return errors.New("the name of the primary is missing: it must be like " + examples[Sentinel])
	case a.Mode == Sentinel:
		a.Primary = name
	case a.Mode == Cluster && name != "":
		return errors.New("a cluster has no databases: remove what follows the hosts")
	case name != "":
		a.database, err = database(name)
	}
	return err
}

func database(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, errors.New("the database must be a number from 0")
	}
	return n, nil
}

func (a *Address) query(raw, password string) error {
	values, err := url.ParseQuery(raw)
	allowed := slices.Clone(parameters[a.Mode])
	if a.TLS {
		allowed = append(allowed, tlsParameters...)
	}
	for name, each := range values {
		if !slices.Contains(allowed, name) || len(each) > 1 || each[0] == "" {
			err = errors.New("unknown, empty or repeated")
		}
	}
	if err != nil {
		return fmt.Errorf("a parameter after the ? is unknown, empty or repeated: it may have %s", strings.Join(allowed, ", "))
	}
	if text := values.Get("db"); text != "" {
		if a.database, err = database(text); err != nil {
			return err
		}
	}
	a.password = newSecret(password, values.Get("password_file"))
	a.sentinel = login{values.Get("sentinel_username"), newSecret(values.Get("sentinel_password"), values.Get("sentinel_password_file"))}
	a.files = tlsFiles{values.Get("ca"), values.Get("cert"), values.Get("key"), values.Get("server_name")}
	a.tls = freshfile.New(a.files.config, a.files.ca, a.files.cert, a.files.key)
	a.clientName = values.Get("client_name")
	return nil
}

// check reads the files once, so that a wrong one is found at the start.
func (a *Address) check() error {
	for name, password := range map[string]secret{"password": a.password, "sentinel_password": a.sentinel.password} {
		if password.text != "" && password.file != "" {
			return fmt.Errorf("it has a password and %s_file: remove one of them", name)
		}
		if _, err := password.read(); err != nil {
			return fmt.Errorf("%s_file: %w", name, err)
		}
	}
	if (a.files.cert == "") != (a.files.key == "") {
		return errors.New("it has one of cert and key: a client certificate needs both")
	}
	_, err := a.tls.Get()
	return err
}

// HasPassword reports whether Redis is given a password.
func (a *Address) HasPassword() bool { return a.password.text != "" || a.password.file != "" }
