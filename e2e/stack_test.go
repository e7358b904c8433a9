// Package e2e tests the whole with real processes: what a person starts, and
// what a person sees.
package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/stretchr/testify/require"
)

// reelay is the program, built once for all tests.
var reelay string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "reelay-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	reelay = filepath.Join(dir, "reelay")
	build := exec.Command("go", "build", "-o", reelay, module+"/cmd/reelay")
	build.Stderr = os.Stderr
	code := 1
	if build.Run() == nil {
		code = m.Run()
	}
	if shared.stack != nil {
		shared.stack.end()
		os.RemoveAll(shared.stack.data)
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// stack is a running `reelay up`.
type stack struct {
	cmd  *exec.Cmd
	data string
	log  *strings.Builder
	mu   sync.Mutex
	keys struct {
		Endpoint, AdminKey, OperatorKey, ClientKey, WorkerKey string
	}
	ended chan struct{}
}

// readyLimit is how long `up` may take on a machine that does much else.
const readyLimit = 90 * time.Second

// launch starts `reelay up` on a data folder and waits until it is ready.
func launch(data string, args ...string) (*stack, error) { return launchWith(nil, data, args...) }

// launchWith is launch, with more in the environment.
func launchWith(env []string, data string, args ...string) (*stack, error) {
	s := &stack{data: data, log: &strings.Builder{}, ended: make(chan struct{})}
	s.cmd = exec.Command(reelay, append([]string{"up", "--listen", "127.0.0.1:0", "--data", data}, args...)...)
	s.cmd.Env = append(os.Environ(), env...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.cmd.Stderr = s
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	ready := make(chan bool, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			fmt.Fprintln(s, lines.Text())
			if strings.HasPrefix(lines.Text(), "ready http") {
				ready <- true
			}
		}
		s.cmd.Wait()
		close(s.ended)
	}()
	select {
	case <-ready:
	case <-s.ended:
		return nil, errors.New("up ended: " + s.output())
	case <-time.After(readyLimit):
		s.end()
		return nil, errors.New("up was not ready in time: " + s.output())
	}
	keys, err := os.ReadFile(filepath.Join(data, "credentials.json"))
	if err != nil {
		return nil, err
	}
	return s, json.Unmarshal(keys, &s.keys)
}

// Write keeps what `up` prints and logs.
func (s *stack) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Write(p)
}

func (s *stack) output() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// end stops the stack as Ctrl-C does.
func (s *stack) end() {
	s.cmd.Process.Signal(syscall.SIGINT)
	select {
	case <-s.ended:
	case <-time.After(time.Minute):
		s.cmd.Process.Kill()
		<-s.ended
	}
}

// start launches a stack of the test's own.
func start(t *testing.T, args ...string) *stack {
	t.Helper()
	s, err := launch(dataDir(t), args...)
	require.NoError(t, err)
	t.Cleanup(s.end)
	return s
}

// dataDir is a folder that a private PostgreSQL can use, whoever runs the tests.
func dataDir(t *testing.T) string {
	t.Helper()
	dir, err := makeDataDir()
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// makeDataDir makes a folder that others may pass: where root may not make a
// user namespace, as in many containers, PostgreSQL runs as another user.
func makeDataDir() (string, error) {
	dir, err := os.MkdirTemp("", "reelay-e2e-data-")
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o711)
}

var shared struct {
	once  sync.Once
	stack *stack
	err   error
}

// common is the stack that tests share which do not disturb each other: two
// agents, and more when many jobs wait.
func common(t *testing.T) *stack {
	t.Helper()
	shared.once.Do(func() {
		var dir string
		if dir, shared.err = makeDataDir(); shared.err == nil {
			shared.stack, shared.err = launch(dir, "--agents", "2", "--agents-max", "4")
		}
	})
	require.NoError(t, shared.err)
	return shared.stack
}

func (s *stack) client(t *testing.T) *client.Client   { return s.dial(t, s.keys.ClientKey) }
func (s *stack) operator(t *testing.T) *client.Client { return s.dial(t, s.keys.OperatorKey) }

func (s *stack) dial(t *testing.T, key string) *client.Client {
	t.Helper()
	c, err := client.New(s.keys.Endpoint, key)
	require.NoError(t, err)
	return c
}

// eventually polls until check holds. It is for what has no event to wait for:
// other processes.
func eventually(t *testing.T, limit time.Duration, what string, check func(ctx context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for !check(ctx) {
		select {
		case <-look.C:
		case <-ctx.Done():
			require.FailNow(t, "it did not come to pass in "+limit.String(), what)
		}
	}
}
