package engines

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/gpu/runtimes/remote"
	"github.com/reelay/reelay/internal/engine"
	"github.com/stretchr/testify/require"
)

const one, two = "http://gpu-1:8188", "http://gpu-2:8188"

// control is a control plane that knows syncEngines.
type control struct {
	mu      sync.Mutex
	wanted  []client.WantedEngine
	down    bool
	reports []client.EngineReport // of the newest call that had any
}

func (c *control) RoundTrip(r *http.Request) (*http.Response, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down {
		return nil, errors.New("no network")
	}
	var call struct {
		Variables struct {
			Input client.SyncEnginesInput `json:"input"`
		} `json:"variables"`
	}
	if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
		return nil, err
	}
	if len(call.Variables.Input.Reports) > 0 {
		c.reports = call.Variables.Input.Reports
	}
	body, err := json.Marshal(map[string]any{"data": map[string]any{"syncEngines": client.WantedEngines{
		Pool: "comfy", Kind: string(engine.ComfyUI), Engines: c.wanted,
	}}})
	header := http.Header{"Content-Type": {"application/json"}}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(body)), Header: header}, err
}

func (c *control) want(engines ...client.WantedEngine) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted = engines
}

// report returns the newest report of an engine.
func (c *control) report(url string) client.EngineReport {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.reports {
		if r.Url == url {
			return r
		}
	}
	return client.EngineReport{}
}

// stub is an engine that is as the test says.
type stub struct {
	remote.Engine
	mu     sync.Mutex
	health remote.Health
	err    error
	has    bool
}

func (s *stub) Health(context.Context) (remote.Health, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.health, s.err
}

func (s *stub) Has(context.Context, string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.has, nil
}

func (s *stub) set(change func(*stub)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// site is a fleet whose workers run until they must leave.
type site struct {
	*control
	fleet   *Fleet
	engines map[string]*stub
	stop    context.CancelFunc
	ended   chan error

	mu      sync.Mutex
	workers map[string]*Driver // those that run
	begun   map[string]int
}

func (s *site) worker(url string) *Driver {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.workers[url]
}

func (s *site) starts(url string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun[url]
}

// run tests a fleet in a bubble whose clock is the test's.
func run(t *testing.T, test func(t *testing.T, s *site)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &site{control: &control{}, engines: map[string]*stub{one: {}, two: {}}, ended: make(chan error, 1),
			workers: map[string]*Driver{}, begun: map[string]int{}}
		s.want(client.WantedEngine{Url: one})
		api, err := client.New("http://control", "rl_enrol", client.WithTransport(s.control))
		require.NoError(t, err)
		s.fleet = &Fleet{
			API: api, Pool: "comfy", Log: slog.New(slog.DiscardHandler),
			Open: func(_ engine.Kind, url string) (remote.Engine, error) { return s.engines[url], nil },
			Work: func(ctx context.Context, d *Driver, _ []string) error {
				s.mu.Lock()
				s.workers[d.URL] = d
				s.begun[d.URL]++
				s.mu.Unlock()
				select {
				case <-d.Leave():
				case <-ctx.Done():
				}
				s.mu.Lock()
				delete(s.workers, d.URL)
				s.mu.Unlock()
				return nil
			},
		}
		ctx, stop := context.WithCancel(t.Context())
		s.stop = stop
		go func() { s.ended <- s.fleet.Run(ctx) }()
		s.later()
		test(t, s)
		stop()
		synctest.Wait()
	})
}

// later lets looks and reports happen.
func (s *site) later() {
	time.Sleep(3 * lookEvery)
	synctest.Wait()
}

func TestFleet(t *testing.T) {
	t.Run("GivesAReadyEngineAWorkerAndTakesItFromOneThatIsAway", func(t *testing.T) {
		run(t, func(t *testing.T, s *site) {
			require.NotNil(t, s.worker(one))
			require.Equal(t, client.EngineStateReady, s.report(one).State)

			s.engines[one].set(func(e *stub) { e.err = &remote.Unreachable{Cause: errors.New("connection refused")} })
			s.later()
			require.Nil(t, s.worker(one))
			require.Equal(t, client.EngineStateUnreachable, s.report(one).State)
			require.Contains(t, s.report(one).Reason, "connection refused")

			s.engines[one].set(func(e *stub) { e.err = &remote.Confused{What: "a page of HTML"} })
			s.later()
			require.Equal(t, client.EngineStateFailed, s.report(one).State)
			require.Nil(t, s.worker(one))

			s.engines[one].set(func(e *stub) { e.err = nil; e.health = remote.Health{Loading: "its setup has not ended"} })
			s.later()
			require.Nil(t, s.worker(one))

			s.engines[one].set(func(e *stub) { e.health = remote.Health{Version: "0.3.75", GPU: "L4", Memory: 24} })
			s.later()
			require.NotNil(t, s.worker(one))
			require.Equal(t, 2, s.starts(one))
			require.Equal(t, "0.3.75", s.report(one).Version)
			require.Equal(t, int64(24), *s.report(one).GpuMemoryBytes)
		})
	})

	t.Run("AsksTheEngineBeforeEachJob", func(t *testing.T) {
		run(t, func(t *testing.T, s *site) {
			d := s.worker(one)
			require.NoError(t, d.Ready(t.Context()))
			s.engines[one].set(func(e *stub) { e.health.Busy = true })
			s.later()
			require.Equal(t, client.EngineStateBusy, s.report(one).State, "its worker has a job")
			require.NotNil(t, s.worker(one))
			require.ErrorContains(t, d.Ready(t.Context()), "it renders something that Reelay cancelled or did not start")
		})
	})

	t.Run("LetsTheFirstWorkerAdoptWhatTheEngineComputes", func(t *testing.T) {
		run(t, func(t *testing.T, s *site) {
			s.engines[two].set(func(e *stub) { e.health.Busy = true })
			s.want(client.WantedEngine{Url: one}, client.WantedEngine{Url: two})
			s.later()
			d := s.worker(two)
			require.NotNil(t, d)
			require.NoError(t, d.Ready(t.Context()))
			require.Error(t, d.Ready(t.Context()), "only once")
		})
	})

	t.Run("FollowsHoldsAndTheListOfThePool", func(t *testing.T) {
		run(t, func(t *testing.T, s *site) {
			s.want(client.WantedEngine{Url: one, Held: true}, client.WantedEngine{Url: two})
			s.later()
			require.Nil(t, s.worker(one))
			require.NotNil(t, s.worker(two))

			s.want(client.WantedEngine{Url: one})
			s.later()
			require.NotNil(t, s.worker(one))
			require.Nil(t, s.worker(two))

			s.want(client.WantedEngine{Url: one}, client.WantedEngine{Url: two})
			s.later()
			require.NotNil(t, s.worker(two))
			require.Equal(t, 2, s.starts(two))
		})
	})

	t.Run("ReportsWhatAnEngineLacksUntilItHasIt", func(t *testing.T) {
		run(t, func(t *testing.T, s *site) {
			d := s.worker(one)
			d.Unfit(t.Context(), "wan", &runtime.Failure{Lacks: "Loader.file=wan.safetensors"})
			require.Equal(t, []client.EngineLackInput{{Model: "wan", Missing: "Loader.file=wan.safetensors"}}, s.report(one).Lacks)
			s.later()
			require.Len(t, s.report(one).Lacks, 1)
			s.engines[one].set(func(e *stub) { e.has = true })
			s.later()
			require.Empty(t, s.report(one).Lacks)
			require.Equal(t, 1, s.starts(one), "the worker stays: it has other models")
		})
	})

	t.Run("KeepsItsWorkersWhileTheControlPlaneIsAway", func(t *testing.T) {
		run(t, func(t *testing.T, s *site) {
			s.control.mu.Lock()
			s.down = true
			s.control.mu.Unlock()
			s.later()
			require.NotNil(t, s.worker(one))
			s.fleet.Stop()
			require.NoError(t, <-s.ended, "it stops all the same")
			require.Nil(t, s.worker(one))
		})
	})
}
