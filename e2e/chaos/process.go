package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/reelay/reelay/internal/localstack"
)

// stopping returns a context that limits how long a process can take to stop.
func stopping() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	context.AfterFunc(ctx, cancel)
	return ctx
}

// outage is a time in which a process did not run. until is zero while it lasts.
type outage struct{ from, until time.Time }

// process is a program that a supervisor keeps running: whenever it ends, it is restarted
// after a moment.
type process struct {
	name  string
	start func() (child, error)

	mu      sync.Mutex
	child   child
	down    bool // kept down on purpose
	outages []outage
	changed chan struct{} // closed and replaced at each change
	done    chan struct{}
}

// child is one run of a program.
type child interface {
	Pid() int
	Done() <-chan struct{}
	Stop(ctx context.Context) error
}

// supervise starts the process and restarts it until ctx ends.
func supervise(ctx context.Context, name string, start func() (child, error)) (*process, error) {
	p := &process{name: name, start: start, changed: make(chan struct{}), done: make(chan struct{})}
	first, err := start()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p.child = first
	go p.keep(ctx)
	return p, nil
}

const restartAfter = 300 * time.Millisecond

func (p *process) keep(ctx context.Context) {
	defer close(p.done)
	for {
		select {
		case <-ctx.Done():
			p.mu.Lock()
			running := p.child
			p.mu.Unlock()
			_ = syscall.Kill(running.Pid(), syscall.SIGCONT)
			_ = running.Stop(stopping())
			return
		case <-p.child.Done():
		}
		ended := time.Now()
		p.mu.Lock()
		p.outages = append(p.outages, outage{from: ended})
		p.mu.Unlock()
		_ = p.child.Stop(stopping()) // also releases its resources
		for ctx.Err() == nil {
			sleep(ctx, restartAfter)
			p.mu.Lock()
			held, changed := p.down, p.changed
			p.mu.Unlock()
			if held {
				select {
				case <-changed:
				case <-ctx.Done():
				}
				continue
			}
			fresh, err := p.start()
			if err != nil {
				continue
			}
			p.mu.Lock()
			p.child = fresh
			p.outages[len(p.outages)-1].until = time.Now()
			p.mu.Unlock()
			break
		}
		if ctx.Err() != nil {
			continue
		}
	}
}

// signal sends a signal to the process itself.
func (p *process) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.child.Done():
	default:
		_ = syscall.Kill(p.child.Pid(), s)
	}
}

// replace stops the process gracefully. It returns when the program that starts next runs instead, or
// ctx ends.
func (p *process) replace(ctx context.Context) error {
	before := p.running()
	p.signal(syscall.SIGTERM)
	for ; ctx.Err() == nil; sleep(ctx, 10*time.Millisecond) {
		if p.running() != before {
			return nil
		}
	}
	return fmt.Errorf("replace %s: %w", p.name, context.Cause(ctx))
}

func (p *process) running() child {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.child
}

// keepDown keeps the process down once it has ended; release lets it start again.
func (p *process) keepDown() { p.setDown(true) }

func (p *process) release() { p.setDown(false) }

func (p *process) setDown(held bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = held
	close(p.changed)
	p.changed = make(chan struct{})
}

// away returns the times in which it did not run.
func (p *process) away() []outage {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]outage(nil), p.outages...)
}

// startRedis starts a Redis without persistence, always at the same address with the same
// password.
func startRedis(dir string, port int, password string) (*localstack.Child, error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("redis-server is missing: run `go tool task setup`: %w", err)
	}
	settings := []string{
		"bind 127.0.0.1", "port " + strconv.Itoa(port), "requirepass " + password,
		"daemonize no", `save ""`, "appendonly no", "maxmemory-policy noeviction",
	}
	child, err := localstack.StartChild(localstack.ChildConfig{
		Name: "redis-server", Path: program, Args: []string{"-"}, Dir: dir,
		Input: strings.Join(settings, "\n") + "\n", Log: filepath.Join(dir, "redis.log"),
	})
	if err != nil {
		return nil, err
	}
	return child, answers(child, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}

// answers waits until a connection to address succeeds or the child has ended. It tries again and
// again, since other programs do not report that they listen.
func answers(c child, address string) error {
	for limit := time.Now().Add(20 * time.Second); time.Now().Before(limit); time.Sleep(10 * time.Millisecond) {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-c.Done():
			return fmt.Errorf("what should listen at %s has ended", address)
		default:
		}
	}
	_ = c.Stop(stopping())
	return fmt.Errorf("nothing listens at %s", address)
}

// redisURL returns the address of Redis at a host and port, which can be those of a proxy.
func redisURL(host, password string) string {
	u := url.URL{Scheme: "redis", User: url.UserPassword("", password), Host: host, Path: "/0"}
	return u.String()
}

func newPassword() string { return rand.Text() }

// freePort returns a port of the loopback interface that is free now.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// childrenOf returns the child processes of pid.
func childrenOf(pid int) []int {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	var found []int
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		// pid (name) state ppid …; a name can contain any character.
		rest := string(stat[strings.LastIndexByte(string(stat), ')')+1:])
		fields := strings.Fields(rest)
		if len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			child, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			found = append(found, child)
		}
	}
	return found
}
