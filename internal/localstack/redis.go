package localstack

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

	"github.com/reelay/reelay/internal/redisurl"
)

// redisStart is how long a start may take. Redis first reads its whole log.
const redisStart = time.Minute

// portPause is the pause before another try to listen at the port of a server that ended.
const portPause = 250 * time.Millisecond

// RedisConfig says where a private Redis keeps its data.
type RedisConfig struct {
	Dir string // holds everything that it writes; with Test, empty means a temporary folder
	// Test keeps the data in memory only.
	Test bool
}

// Redis is a private Redis server.
type Redis struct {
	*Child
	config   RedisConfig
	program  string
	account  *account
	port     int
	password string
	lock     *DirLock
	remove   string
}

// StartRedis starts a server on the data in config.Dir. It returns when the
// server answers. ctx limits the start only. It returns a *[MissingError] if Redis is not
// installed. If the directory is in use or unusable, the error says what to do.
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

// URL returns its address with its password, as REDIS_URL has it.
func (r *Redis) URL() string {
	address := url.URL{
		Scheme: "redis", User: url.UserPassword("default", r.password),
		Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(r.port)), Path: "/0",
	}
	return address.String()
}

// Restart starts the server again after it ended unexpectedly, with its remaining data
// and the same URL. It returns when the server answers. ctx limits the start only.
func (r *Redis) Restart(ctx context.Context) (*Child, error) {
	ctx, cancel := context.WithTimeout(ctx, redisStart)
	defer cancel()
	for {
		err := r.serve(ctx)
		if err == nil {
			return r.Child, nil
		}
		// While the server was away, a connection of another program may have got its port.
		if !errors.Is(err, errPortTaken) || ctx.Err() != nil {
			return nil, err
		}
		time.Sleep(portPause)
	}
}

// Stop shuts the server down and unlocks its directory. It returns an error if the server
// had to be killed, which may lose the writes of the last second.
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

func (r *Redis) start(ctx context.Context, config RedisConfig) (err error) {
	r.config = config
	if r.program, err = findRedis(); err != nil {
		return err
	}
	if r.account, err = unprivileged(r.program, "redis"); err != nil {
		return err
	}
	if err := r.account.own(config.Dir); err != nil {
		return err
	}
	// Redis cannot choose a free port itself. If another program takes the chosen port first,
	// the next try uses another one.
	r.password = rand.Text()
	for {
		if r.port, err = freePort(); err != nil {
			return err
		}
		if err = r.serve(ctx); !errors.Is(err, errPortTaken) || ctx.Err() != nil {
			return err
		}
	}
}

// errPortTaken means that another program listens on the server's port.
var errPortTaken = errors.New("its port is taken")

// serve runs the server and waits until it answers.
func (r *Redis) serve(ctx context.Context) error {
	child, err := StartChild(ChildConfig{
		Name: "redis-server", Path: r.program, Args: []string{"-"}, Dir: r.config.Dir,
		Input: redisSettings(r.config, r.port, r.password),
		Log:   filepath.Join(r.config.Dir, "redis.log"), account: r.account,
	})
	if err != nil {
		return err
	}
	address := r.URL()
	if err := answers(ctx, child, func(ctx context.Context) error { return pingRedis(ctx, address) }); err != nil {
		child.Kill()
		if strings.Contains(child.lastWords(), "ddress already in use") {
			return fmt.Errorf("%w: %w", errPortTaken, err)
		}
		return err
	}
	r.Child = child
	return nil
}

// redisSettings are passed to the server on its standard input, so that the password is
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

// pingRedis sends the password, so that only this server can answer.
func pingRedis(ctx context.Context, url string) error {
	address, err := redisurl.Parse(url)
	if err != nil {
		return err
	}
	// At first nothing listens there. That is expected, but go-redis would log it.
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address.Hosts[0])
	if err != nil {
		return err
	}
	client := address.Open(redisStart)
	return errors.Join(conn.Close(), client.Ping(ctx).Err(), client.Close())
}
