package servers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/reelay/reelay/cmd/reelay/internal/credentials"
	"github.com/reelay/reelay/cmd/reelay/internal/front"
	"github.com/reelay/reelay/cmd/reelay/internal/settings"
	"github.com/reelay/reelay/internal/localstack"
	"github.com/reelay/reelay/internal/secretfile"
	"golang.org/x/sync/errgroup"
)

// processes are the api and control processes of `up`: child processes of this program
// that are restarted when they end.
type processes struct {
	roster *roster
	all    []*process
}

// process is one of them, across restarts.
type process struct {
	config localstack.ChildConfig
	child  *localstack.Child
	// leaves marks an agent, which ends before the others: it gives its jobs back.
	leaves bool
}

// processGrace is how long an api or control process may take to end: it drains.
const processGrace = front.DrainTime + 5*time.Second

// newProcesses returns o.api api and o.control control processes, and drivers. It starts none. All
// api processes serve one socket, where a connection waits until one of them accepts it.
func newProcesses(cfg settings.Config, o upOptions, socket *os.File, roster *roster, drivers []*process) *processes {
	all := &processes{roster: roster}
	add := func(command string, n int, files ...*os.File) {
		for i := range n {
			name := fmt.Sprintf("%s-%d", command, i+1)
			all.all = append(all.all, &process{config: localstack.ChildConfig{
				Name: name, Args: []string{command}, Output: os.Stderr, Grace: processGrace + cfg.StopDelay, Files: files,
				Env: slices.Concat(os.Environ(), cfg.Environment(name), secretfile.Environment()),
			}})
		}
	}
	add("api", o.api, socket)
	add("control", o.control)
	all.all = append(all.all, drivers...)
	return all
}

// start starts them and returns when an api process answers at address. It returns an
// error if one of them ends before that, because it would end again.
func (a *processes) start(ctx context.Context, address string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program, to run it again: %w", err)
	}
	for _, p := range a.all {
		p.config.Path = self
		if _, err := a.startOne(p); err != nil {
			return err
		}
	}
	return a.answer(ctx, address)
}

func (a *processes) startOne(p *process) (*localstack.Child, error) {
	child, err := localstack.StartChild(p.config)
	if err != nil {
		return nil, err
	}
	p.child = child
	a.roster.set(p.config.Name, child.Pid())
	return child, nil
}

// answer waits until an api process reports that it is ready.
func (a *processes) answer(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("the API did not answer within a minute"))
	defer cancel()
	for !answers(ctx, address) {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
		for _, p := range a.all {
			if err := p.child.Err(); err != nil {
				return err
			}
		}
	}
	return nil
}

// prober asks over loopback and sends no secret, so it does not verify the certificate.
var prober = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}

func answers(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/readyz", nil)
	if err != nil {
		return false
	}
	request.Close = true
	response, err := prober.Do(request)
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// keep restarts processes that end, until ctx ends.
func (a *processes) keep(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, p := range a.all {
		keeper := localstack.Keeper{Name: p.config.Name, Start: func(context.Context) (*localstack.Child, error) { return a.startOne(p) }}
		group.Go(func() error { return keeper.Run(ctx, p.child) })
	}
	return group.Wait()
}

// stop asks all of them to end and waits: first the agents, which call the others.
func (a *processes) stop() error {
	errs := make([]error, len(a.all))
	for _, agents := range []bool{true, false} {
		var stopping sync.WaitGroup
		for i, p := range a.all {
			if p.child != nil && p.leaves == agents {
				stopping.Go(func() { errs[i] = p.child.Stop(context.Background()) })
			}
		}
		stopping.Wait()
	}
	return errors.Join(errs...)
}

// roster is a file with the process ids of a running `up`, by name. It is for debugging
// and for tests that kill processes.
type roster struct {
	path string
	mu   sync.Mutex
	pids map[string]int
}

const rosterFile = "processes.json"

func newRoster(path string) *roster {
	r := &roster{path: path, pids: map[string]int{}}
	r.set("up", os.Getpid())
	return r
}

func (r *roster) set(name string, pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pids[name] = pid
	r.write()
}

func (r *roster) remove(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pids, name)
	r.write()
}

func (r *roster) write() {
	if err := credentials.WritePrivate(r.path, r.pids); err != nil {
		slog.Warn("could not update the list of processes", "error", err)
	}
}

// close removes the file after all processes have ended.
func (r *roster) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = os.Remove(r.path) // a stale file is harmless: `up` has ended
}
