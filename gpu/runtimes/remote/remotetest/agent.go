// Package remotetest is an agent for tests of engines: it gives a job to the runtime, stores its
// handles, and says how the job ended.
package remotetest

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/gpu/runtimes/remote"
	"github.com/stretchr/testify/require"
)

// Agent is the other end of a runtime that serves one engine. It ends with the test, or is killed.
type Agent struct {
	t     testing.TB
	to    *io.PipeWriter
	ended chan error

	mu      sync.Mutex
	changed *sync.Cond
	handles []string
	said    []Said
	over    bool
}

// Said is a message of the runtime, without those about handles.
type Said struct {
	Progress                *runtime.Progress
	Preview                 *runtime.Preview
	Result                  *runtime.Result
	Failure                 *runtime.Failure
	Log                     *runtime.Log
	Cancelled, Loaded, Junk bool
}

// New starts a runtime for the first of these engines, which adopts work on all.
func New(t testing.TB, kind string, urls []string, open func(url string) remote.Engine, patience time.Duration) *Agent {
	t.Helper()
	config := remote.Config{Kind: kind, Own: urls[0], Engines: map[string]remote.Engine{}, Patience: patience, Every: 50 * time.Millisecond}
	for _, url := range urls {
		config.Engines[url] = open(url)
	}
	return Run(t, config)
}

// Run starts a runtime with a configuration of the test.
func Run(t testing.TB, config remote.Config) *Agent {
	t.Helper()
	a := &Agent{t: t, ended: make(chan error, 1)}
	a.changed = sync.NewCond(&a.mu)
	in, to := io.Pipe()
	from, out := io.Pipe()
	a.to = to
	go a.read(from)
	go func() { a.ended <- remote.Run(context.Background(), in, out, config); out.Close() }()
	t.Cleanup(a.Kill)
	return a
}

func (a *Agent) read(from io.Reader) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 2<<20)
	for lines.Scan() {
		var m struct {
			Ready     *runtime.Ready
			Handle    *runtime.Handle
			Progress  *runtime.Progress
			Preview   *runtime.Preview
			Result    *runtime.Result
			Error     *runtime.Failure
			Log       *runtime.Log
			Loaded    *runtime.Loaded
			Cancelled *struct{}
		}
		err := json.Unmarshal(lines.Bytes(), &m)
		a.mu.Lock()
		switch {
		case m.Handle != nil:
			a.handles = append(a.handles, m.Handle.Value)
			if m.Handle.Ack {
				go a.send(map[string]any{"stored": struct{}{}})
			}
		case m.Ready == nil:
			a.said = append(a.said, Said{Progress: m.Progress, Preview: m.Preview, Result: m.Result, Failure: m.Error, Log: m.Log,
				Cancelled: m.Cancelled != nil, Loaded: m.Loaded != nil, Junk: err != nil})
		}
		a.changed.Broadcast()
		a.mu.Unlock()
	}
	a.mu.Lock()
	a.over = true
	a.changed.Broadcast()
	a.mu.Unlock()
}

func (a *Agent) send(command map[string]any) {
	line, err := json.Marshal(command)
	require.NoError(a.t, err)
	_, _ = a.to.Write(append(line, '\n')) // the runtime may have been killed
}

// Start gives the runtime a job. Its directory is a new one if it names none.
func (a *Agent) Start(job runtime.Start) {
	a.t.Helper()
	if job.Workdir == "" {
		job.Workdir = a.t.TempDir()
	}
	a.send(map[string]any{"start": job})
}

// Load asks for a model and returns the failure, or nil.
func (a *Agent) Load(model runtime.Model) *runtime.Failure {
	a.t.Helper()
	a.send(map[string]any{"load": model})
	return a.Await(func(s Said) bool { return s.Loaded || s.Failure != nil }).Failure
}

// Cancel cancels the job. keep leaves its work on the engine.
func (a *Agent) Cancel(keep bool) { a.send(map[string]any{"cancel": runtime.Cancel{Keep: keep}}) }

// Kill ends the runtime as the end of its agent does.
func (a *Agent) Kill() { a.to.Close() }

// Await returns the first message that fits. It removes it and those before it.
func (a *Agent) Await(fits func(Said) bool) Said {
	a.t.Helper()
	limit := time.AfterFunc(40*time.Second, func() { a.mu.Lock(); a.over = true; a.changed.Broadcast(); a.mu.Unlock() })
	defer limit.Stop()
	a.mu.Lock()
	defer a.mu.Unlock()
	for {
		for i, s := range a.said {
			if fits(s) {
				a.said = a.said[i+1:]
				return s
			}
		}
		if a.over {
			require.FailNow(a.t, "the runtime ended, or did not say it in time")
		}
		a.changed.Wait()
	}
}

// End returns how the job ended.
func (a *Agent) End() Said {
	a.t.Helper()
	return a.Await(func(s Said) bool { return s.Result != nil || s.Failure != nil || s.Cancelled })
}

// Handle waits for a handle that fits and returns it.
func (a *Agent) Handle(fits func(value string) bool) string {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	for {
		if n := len(a.handles); n > 0 && fits(a.handles[n-1]) {
			return a.handles[n-1]
		}
		require.False(a.t, a.over, "the runtime ended without the handle: %v", a.handles)
		a.changed.Wait()
	}
}

// LastHandle returns the newest handle, or "".
func (a *Agent) LastHandle() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.handles) == 0 {
		return ""
	}
	return a.handles[len(a.handles)-1]
}

// Logs returns the lines of the job's log so far.
func (a *Agent) Logs() (lines []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.said {
		if s.Log != nil {
			lines = append(lines, s.Log.Message)
		}
	}
	return lines
}
