package services

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// redisStart is how long a start may take: Redis reads its whole log first.
const redisStart = time.Minute

// RedisConfig says where a private Redis keeps its data.
type RedisConfig struct {
	Dir string // everything it writes is below; empty, with Test, is a temporary one
	// Test keeps the data in memory only.
	Test bool
}

// Redis is a private Redis server.
type Redis struct {
	*Child
	url    string
	lock   *DirLock
	remove string
}

// StartRedis starts a server on the data in config.Dir. It returns when the
// server answers. ctx bounds the start only. It returns a *[MissingError] if
// Redis is not installed, and an error that says what to do if the directory is
// taken or unusable.
func StartRedis(ctx context.Context, config RedisConfig) (_ *Redis, err error) {
	ctx, cancel := context.WithTimeout(ctx, redisStart)
	defer cancel()

	server := &Redis{}
	defer func() {
		if err != nil {
			err = errors.Join(err, server.discard())
		}
	}()
	if config.Dir == "" && config.Test {
		if config.Dir, err = os.MkdirTemp("", "reelay-redis-"); err != nil {
			return nil, err
		}
		server.remove = config.Dir
	}
	if config.Dir, server.lock, err = takeDir(config.Dir); err != nil {
		return nil, err
	}
	if err := server.start(ctx, config); err != nil {
		return nil, err
	}
	return server, nil
}

// URL is its address with its password, for redis.ParseURL and
// asynq.ParseRedisURI.
func (r *Redis) URL() string { return r.url }

// Stop ends the server in good order and gives its directory back. It returns an
// error if the server had to be killed, which may cost the last second's writes.
func (r *Redis) Stop(ctx context.Context) error {
	return errors.Join(r.Child.Stop(ctx), r.discard())
}

func (r *Redis) discard() error {
	var errs []error
	if r.lock != nil {
		errs = append(errs, r.lock.Release())
		r.lock = nil
	}
	if r.remove != "" {
		errs = append(errs, os.RemoveAll(r.remove))
	}
	return errors.Join(errs...)
}

func (r *Redis) start(ctx context.Context, config RedisConfig) error {
	program, err := findRedis()
	if err != nil {
		return err
	}
	account, err := unprivileged(program, "redis")
	if err != nil {
		return err
	}
	if err := account.own(config.Dir); err != nil {
		return err
	}
	// Redis cannot choose a free port by itself, and somebody may take the one we
	// chose before it does. That is seen in its log, and another one is tried.
	for {
		port, err := freePort()
		if err != nil {
			return err
		}
		password := rand.Text()
		child, err := StartChild(ChildConfig{
			Name: "redis-server", Path: program, Args: []string{"-"}, Dir: config.Dir,
			Input: redisSettings(config, port, password),
			Log:   filepath.Join(config.Dir, "redis.log"), account: account,
		})
		if err != nil {
			return err
		}
		address := url.URL{Scheme: "redis", User: url.UserPassword("", password), Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), Path: "/0"}
		err = answers(ctx, child, func(ctx context.Context) error { return pingRedis(ctx, address.String()) })
		if err == nil {
			r.Child, r.url = child, address.String()
			return nil
		}
		child.Kill()
		if !strings.Contains(child.lastWords(), "ddress already in use") || ctx.Err() != nil {
			return err
		}
	}
}

// redisSettings reach the server on its standard input, so that its password is
// neither on disk nor in the list of processes.
func redisSettings(config RedisConfig, port int, password string) string {
	settings := []string{
		"bind 127.0.0.1", fmt.Sprintf("port %d", port), "requirepass " + password,
		"daemonize no", `save ""`, "maxmemory-policy noeviction",
	}
	if config.Test {
		settings = append(settings, "appendonly no")
	} else {
		settings = append(settings, "appendonly yes", "appendfsync everysec")
	}
	return strings.Join(settings, "\n") + "\n"
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// pingRedis asks with the password, so that no other server's answer counts.
func pingRedis(ctx context.Context, address string) error {
	options, err := redis.ParseURL(address)
	if err != nil {
		return err
	}
	// At first nobody listens there. That is no news, but go-redis would log it.
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", options.Addr)
	if err != nil {
		return err
	}
	client := redis.NewClient(options)
	return errors.Join(conn.Close(), client.Ping(ctx).Err(), client.Close())
}
