// Package redistest starts Redis as people run it, for tests: one server, a primary with
// replicas and Sentinels, or a cluster; with and without TLS.
package redistest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/reelay/reelay/internal/localstack"
	"github.com/reelay/reelay/internal/redisurl"
)

// Config says what to start.
type Config struct {
	Mode redisurl.Mode // empty means one server
	// Replicas is how many each primary has: with Sentinels at least 1.
	Replicas int
	// TLS makes all connections use it, with client certificates.
	TLS bool
	// Away is for how long a server may not answer until another one takes its place; 0 is 10 s,
	// so that a busy machine causes no failover.
	Away time.Duration
}

// Redis is its running servers.
type Redis struct {
	// Nodes are the servers that have data, primaries before replicas.
	Nodes []*Node
	// Sentinels watch the first of the nodes.
	Sentinels []*Node

	config   Config
	dir      string
	password string
}

// Node is a server of it.
type Node struct {
	*localstack.Child
	Host string // and port

	redis *Redis
}

// primary is the name by which Sentinels know it.
const primary = "main"

// startLimit is how long a start may take.
const startLimit = 2 * time.Minute

// StartChosen starts what REELAY_TEST_REDIS names: server (the default), sentinel or cluster.
func StartChosen(ctx context.Context, config Config) (*Redis, error) {
	config.Mode = redisurl.Mode(os.Getenv("REELAY_TEST_REDIS"))
	return Start(ctx, config)
}

// Start starts it, and returns once all its servers know each other.
func Start(ctx context.Context, config Config) (_ *Redis, err error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if config.Mode == redisurl.Sentinel {
		config.Replicas = max(config.Replicas, 1)
	}
	if config.Away == 0 {
		config.Away = 10 * time.Second
	}
	r := &Redis{config: config, password: rand.Text()}
	if r.dir, err = os.MkdirTemp("", "redistest-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Stop(context.WithoutCancel(ctx)))
		}
	}()
	if config.TLS {
		if err := WriteCertificates(r.dir); err != nil {
			return nil, err
		}
	}
	switch config.Mode {
	case redisurl.Sentinel:
		return r, r.startSentinel(ctx)
	case redisurl.Cluster:
		return r, r.startCluster(ctx)
	case redisurl.Server, "":
		r.config.Mode = redisurl.Server
		_, err := r.startServer(ctx)
		return r, err
	}
	return nil, fmt.Errorf("REELAY_TEST_REDIS is %q: it must be server, sentinel or cluster", config.Mode)
}

// URL is its address for the default user, who may do anything.
func (r *Redis) URL() string { return r.URLOf("default", r.password) }

// URLOf is its address for another user, whom the Sentinels know, too.
func (r *Redis) URLOf(user, password string) string {
	switch r.config.Mode {
	case redisurl.Sentinel:
		return r.url("redis+sentinel", user, password, r.Sentinels, "/"+primary, "sentinel_username="+user, "sentinel_password="+password)
	case redisurl.Cluster:
		return r.url("redis+cluster", user, password, r.Nodes, "")
	}
	return r.url("redis", user, password, r.Nodes, "/0")
}

func (r *Redis) url(scheme, user, password string, nodes []*Node, path string, parameters ...string) string {
	if r.config.TLS {
		scheme = strings.Replace(scheme, "redis", "rediss", 1)
		for name, file := range map[string]string{"ca": "ca.pem", "cert": "client.pem", "key": "client.key"} {
			parameters = append(parameters, name+"="+url.QueryEscape(r.File(file)))
		}
	}
	var hosts []string
	for _, node := range nodes {
		hosts = append(hosts, node.Host)
	}
	login := url.UserPassword(user, password).String()
	return scheme + "://" + login + "@" + strings.Join(hosts, ",") + path + "?" + strings.Join(parameters, "&")
}

// File is the path of one of its files, such as ca.pem.
func (r *Redis) File(name string) string { return filepath.Join(r.dir, name) }

// Stop ends all its servers and removes their data.
func (r *Redis) Stop(context.Context) error {
	for _, node := range append(slices.Clone(r.Sentinels), r.Nodes...) {
		node.Kill()
	}
	return os.RemoveAll(r.dir)
}

// Client returns a client of this server alone, which waits for long. Close it after use.
func (n *Node) Client() redis.UniversalClient {
	address, err := redisurl.Parse(n.redis.url("redis", "default", n.redis.password, []*Node{n}, ""))
	if err != nil {
		panic(err) // it is built above
	}
	return address.Open(time.Minute)
}

// Run runs a command on each of the nodes.
func Run(ctx context.Context, nodes []*Node, command ...any) error {
	for _, node := range nodes {
		client := node.Client()
		err := client.Do(ctx, command...).Err()
		client.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", node.Host, err)
		}
	}
	return nil
}

// Limit makes the user reelay on all servers, with the rights that a page of the documentation
// lists, and returns the URL for it.
func (r *Redis) Limit(ctx context.Context, page string) (string, error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return "", err
	}
	var data, sentinel [][]any
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "ACL SETUSER reelay ") {
			continue
		}
		var command []any
		for word := range strings.FieldsSeq(strings.Replace(line, ">PASSWORD", ">limited", 1)) {
			command = append(command, word)
		}
		switch {
		case strings.Contains(line, "+sentinel|"):
			sentinel = append(sentinel, command)
		case r.config.Mode == redisurl.Cluster || !strings.Contains(line, "+cluster|"):
			data = append(data, command)
		}
	}
	for _, command := range data {
		if err := Run(ctx, r.Nodes, command...); err != nil {
			return "", err
		}
	}
	for _, command := range sentinel {
		if err := Run(ctx, r.Sentinels, command...); err != nil {
			return "", err
		}
	}
	return r.URLOf("reelay", "limited"), nil
}

// Refused returns what the servers refused to users for want of a right.
func (r *Redis) Refused(ctx context.Context) (refused []string, err error) {
	for _, node := range append(slices.Clone(r.Nodes), r.Sentinels...) {
		client := node.Client()
		entries, err := client.(*redis.Client).ACLLog(ctx, 100).Result()
		client.Close()
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			refused = append(refused, entry.Reason+" "+entry.Object+" "+entry.Context)
		}
	}
	return refused, nil
}

// Freeze stops it without closing its connections, and Thaw continues it.
func (n *Node) Freeze() error { return syscall.Kill(n.Pid(), syscall.SIGSTOP) }

// Thaw continues it after Freeze.
func (n *Node) Thaw() error { return syscall.Kill(n.Pid(), syscall.SIGCONT) }

// settings are those of a server that has data.
func (r *Redis) settings(more ...string) []string {
	return append([]string{
		"requirepass " + r.password, "masterauth " + r.password, `save ""`, "appendonly yes", "appendfsync no",
		"repl-diskless-sync-delay 0", "repl-timeout 60", "maxmemory-policy noeviction",
	}, more...)
}

func (r *Redis) startServer(ctx context.Context, more ...string) (*Node, error) {
	node, err := r.start(ctx, r.settings(more...))
	if err == nil {
		r.Nodes = append(r.Nodes, node)
	}
	return node, err
}

// errEnded means that a server ended at once, most often because its port was taken.
var errEnded = errors.New("redis-server ended at once")

// start starts a process and waits until it answers.
func (r *Redis) start(ctx context.Context, settings []string, args ...string) (*Node, error) {
	for tries := 1; ; tries++ {
		node, err := r.startAt(ctx, settings, args...)
		if !errors.Is(err, errEnded) || tries == 5 {
			return node, err
		}
	}
}

func (r *Redis) startAt(ctx context.Context, settings []string, args ...string) (*Node, error) {
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	own := []string{"bind 127.0.0.1", "port " + ports[0], "dir " + r.dir + "/" + ports[0]}
	if slices.Contains(settings, "cluster-enabled yes") {
		own = append(own, "cluster-port "+ports[1])
	}
	if r.config.TLS {
		own[1] = "port 0"
		own = append(own, "tls-port "+ports[0], "tls-ca-cert-file "+r.File("ca.pem"), "tls-cert-file "+r.File("server.pem"),
			"tls-key-file "+r.File("server.key"), "tls-replication yes", "tls-cluster yes")
	}
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(filepath.Join(r.dir, ports[0]), 0o700); err != nil {
		return nil, err
	}
	file := filepath.Join(r.dir, ports[0], "redis.conf")
	if err := os.WriteFile(file, []byte(strings.Join(append(own, settings...), "\n")+"\n"), 0o600); err != nil {
		return nil, err
	}
	child, err := localstack.StartChild(localstack.ChildConfig{
		Name: "redis-server", Path: program, Args: append([]string{file}, args...), Log: filepath.Join(r.dir, ports[0], "log"),
	})
	if err != nil {
		return nil, err
	}
	node := &Node{Child: child, Host: "127.0.0.1:" + ports[0], redis: r}
	client := node.Client()
	defer client.Close()
	if err := node.await(ctx, "answers", func() bool { return client.Ping(ctx).Err() == nil }); err != nil {
		child.Kill()
		return nil, err
	}
	return node, nil
}

// await waits until check holds.
func (n *Node) await(ctx context.Context, what string, check func() bool) error {
	for !check() {
		select {
		case <-n.Done():
			return fmt.Errorf("%w: %w", errEnded, n.Err())
		case <-ctx.Done():
			return fmt.Errorf("%s: it is not so that it %s: %w", n.Host, what, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

// freePorts returns ports that nothing listens at. Another program may take one meanwhile.
func freePorts(n int) (ports []string, err error) {
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer listener.Close()
		ports = append(ports, strconv.Itoa(listener.Addr().(*net.TCPAddr).Port))
	}
	return ports, nil
}
