package redisurl

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// reloadEvery is how often a client that is used reads which server has which slots. A server that
// does not answer cannot say that another one took its place.
const reloadEvery = 2 * time.Second

// Open returns a client with these timeouts of a call and of an attempt to connect. It connects
// when it is used. adjust may change its options.
func (a *Address) Open(timeout time.Duration, adjust ...func(*redis.UniversalOptions)) redis.UniversalClient {
	options := a.options(timeout)
	for _, each := range adjust {
		each(options)
	}
	client := a.client(options)
	if a.Observe != nil {
		client.AddHook(observer(a.Observe))
	}
	return client
}

func (a *Address) client(options *redis.UniversalOptions) redis.UniversalClient {
	switch a.Mode {
	case Cluster:
		cluster := options.Cluster()
		cluster.ClusterStateReloadInterval = reloadEvery
		return redis.NewClusterClient(cluster)
	case Sentinel:
		// go-redis waits twice for a Sentinel that hangs before it asks the others.
		options.DialTimeout += 3 * options.ReadTimeout
		return redis.NewFailoverClient(options.Failover())
	}
	return redis.NewClient(options.Simple())
}

func (a *Address) options(timeout time.Duration) *redis.UniversalOptions {
	sentinelPassword, _ := a.sentinel.password.read() // Parse has read it
	options := &redis.UniversalOptions{
		Addrs: a.Hosts, MasterName: a.Primary, DB: a.database, ClientName: a.clientName,
		SentinelUsername: a.sentinel.user, SentinelPassword: sentinelPassword,
		Username: a.User, Password: a.password.text,
		Dialer: a.dial, DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout, PoolTimeout: timeout,
		// Commands for which the user would need more rights.
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if a.password.file != "" || a.newest != nil {
		options.CredentialsProviderContext = func(context.Context) (string, string, error) { return a.login() }
	}
	return options
}

// login returns the newest user and password.
func (a *Address) login() (user, password string, err error) {
	if a.newest != nil {
		fresh, err := Parse(a.newest())
		if err == nil && !slices.Equal(fresh.Hosts, a.Hosts) {
			err = errors.New("it names other hosts: restart this process to use them")
		}
		if err == nil {
			a = fresh
		} else {
			slog.Warn("REDIS_URL changed, but cannot be used: the URL of the start stays in use", "error", err)
		}
	}
	password, err = a.password.read()
	return a.User, password, err
}

// dial connects to a server or a Sentinel. A certificate that was replaced is used from the next
// connection on.
func (a *Address) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if !a.TLS {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	config, err := a.tls.Get()
	if err != nil {
		return nil, fmt.Errorf("connect to Redis with TLS: %w", err)
	}
	return (&tls.Dialer{Config: config}).DialContext(ctx, network, address)
}

// OpenSentinel returns a client for one of the Sentinels.
func (a *Address) OpenSentinel(host string, timeout time.Duration) *redis.SentinelClient {
	password, _ := a.sentinel.password.read()
	return redis.NewSentinelClient(&redis.Options{
		Addr: host, Username: a.sentinel.user, Password: password, ClientName: a.clientName, Dialer: a.dial,
		DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout, DisableIdentity: true, MaxRetries: -1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

// ForEachPrimary calls do with each server that takes writes, one after another: all of a
// cluster's, or the only one.
func ForEachPrimary(ctx context.Context, client redis.UniversalClient, do func(context.Context, *redis.Client) error) error {
	switch c := client.(type) {
	case *redis.Client:
		return do(ctx, c)
	case *redis.ClusterClient:
		var turn sync.Mutex
		return c.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			turn.Lock()
			defer turn.Unlock()
			return do(ctx, node)
		})
	}
	return fmt.Errorf("a client of type %T has no known servers", client)
}
