// Package e2e tests the whole system with real processes: what people start and what they
// see.
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
	"github.com/reelay/reelay/internal/localstack"
	"github.com/reelay/reelay/internal/localstack/redistest"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/stretchr/testify/require"
)

// reelay is the program, built once for all tests.
var reelay string

func TestMain(m *testing.M) {
	if model := os.Getenv(asOutside); model != "" {
		if err := serveOutside(model); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	modelstest.Main(func() int {
		dir, err := os.MkdirTemp("", "bin-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		reelay = filepath.Join(dir, "reelay")
		build := exec.Command("go", "build", "-o", reelay, module+"/cmd/reelay")
		build.Stderr = os.Stderr
		if build.Run() != nil {
			return 1
		}
		// The workers find it on their PATH.
		for name, program := range map[string]string{"reelay-inference": inference, "reelay-transcribe": transcribe} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(program), 0o755); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
		}
		os.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
		defer func() {
			if shared.stack != nil {
				shared.stack.end()
			}
		}()
		testrun.AtOnce(6)
		return m.Run()
	})
}

// stack is a running `reelay up`.
type stack struct {
	*localstack.Child
	data  string
	redis *redistest.Redis // nil if it started its own
	log   *strings.Builder
	mu    sync.Mutex
	keys  struct {
		Endpoint, AdminKey, OperatorKey, ClientKey, WorkerKey string
	}
}

// onS3 reports whether stacks store objects in an S3 server of theirs.
func onS3() bool { return os.Getenv("REELAY_TEST_STORE") == "s3" }

// launch starts `reelay up` on a data folder and waits until it is ready.
func launch(data string, args ...string) (*stack, error) { return launchWith(nil, data, args...) }

// launchWith is launch with additional environment variables.
func launchWith(env []string, data string, args ...string) (*stack, error) {
	s := &stack{data: data, log: &strings.Builder{}}
	if onS3() {
		args = append([]string{"--store", "s3"}, args...)
	}
	var err error
	if s.redis, err = chosenRedis(env); err != nil {
		return nil, err
	}
	if s.redis != nil {
		env = append(env, "REDIS_URL="+s.redis.URL())
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	s.Child, err = localstack.StartChild(localstack.ChildConfig{
		Name: "reelay up", Path: reelay, Args: append([]string{"up", "--listen", "127.0.0.1:0", "--data", data}, args...),
		Env: append(os.Environ(), env...), Output: write, Stop: syscall.SIGINT, Grace: 2 * time.Minute,
	})
	write.Close()
	if err != nil {
		read.Close()
		return nil, err
	}
	ready, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		defer read.Close()
		for lines := bufio.NewReader(read); ; {
			line, err := lines.ReadString('\n')
			s.keep(line)
			if strings.HasPrefix(line, "ready http") {
				close(ready)
			}
			if err != nil {
				return
			}
		}
	}()
	select {
	case <-ready:
	case <-ended:
		return nil, errors.New("up ended: " + s.output())
	case <-time.After(testrun.WaitLimit):
		s.end()
		return nil, errors.New("up was not ready in time: " + s.output())
	}
	keys, err := os.ReadFile(filepath.Join(data, "credentials.json"))
	if err != nil {
		return nil, err
	}
	return s, json.Unmarshal(keys, &s.keys)
}

// keep keeps what `up` prints.
func (s *stack) keep(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log.WriteString(line)
}

func (s *stack) output() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// end stops the stack as Ctrl-C does.
func (s *stack) end() {
	s.Stop(context.Background())
	if s.redis != nil {
		s.redis.Stop(context.Background())
	}
}

// endWith ends the stack with its test. If the test failed, what the stack printed says why.
func (s *stack) endWith(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		s.end()
		if t.Failed() {
			t.Logf("the stack printed:\n%s", s.output())
		}
	})
}

// start launches a stack for one test.
func start(t *testing.T, args ...string) *stack {
	t.Helper()
	s, err := launch(dataDir(t), args...)
	require.NoError(t, err)
	s.endWith(t)
	return s
}

// dataDir returns a folder that a private PostgreSQL can use, whichever user runs the tests.
func dataDir(t *testing.T) string {
	t.Helper()
	dir, err := makeDataDir()
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// makeDataDir makes a folder that other users may enter: if root cannot create a user
// namespace, as in many containers, PostgreSQL runs as another user.
func makeDataDir() (string, error) {
	dir, err := os.MkdirTemp("", "data-")
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

// common returns the stack that is shared by tests that do not disturb each other. It has two
// agents, and more when many jobs wait.
func common(t *testing.T) *stack {
	t.Helper()
	shared.once.Do(func() {
		var dir string
		if dir, shared.err = makeDataDir(); shared.err == nil {
			shared.stack, shared.err = launchWith(traceTo(collected), dir, "--agents", "2", "--agents-max", "4")
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
