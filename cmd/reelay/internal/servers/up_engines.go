package servers

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/reelay/reelay/cmd/reelay/internal/credentials"
	"github.com/reelay/reelay/cmd/reelay/internal/fakes"
	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/internal/engine"
	"github.com/reelay/reelay/internal/localstack"
	"github.com/reelay/reelay/jobs"
)

// upEngines is the name of the pool of the engines of `up`.
const upEngines = "engines"

// enginePool writes the pool of the engines that the flags name. Without any it leaves the pool of
// an earlier start as it is.
func (s *stack) enginePool(ctx context.Context, o upOptions) error {
	if len(o.engines) == 0 {
		return nil
	}
	source, err := json.Marshal(map[string]any{"pools": []map[string]any{{
		"name": upEngines, "provider": engine.Provider, "engineKind": o.engineKind, "engines": o.engines,
	}}})
	if err != nil {
		return err
	}
	if _, err := s.pools().Apply(ctx, jobs.Host, fleet.PoolFile{File: "--engine", Source: string(source)}); err != nil {
		return fmt.Errorf("write the pool of the engines: %w", err)
	}
	return nil
}

// drivers returns the agents of the engines and of the fakes of hosted providers: one for each pool.
func drivers(o upOptions, endpoint string, keys credentials.Keys, hosted *fakes.Fakes) (all []*process) {
	if len(o.engines) > 0 {
		all = append(all, driver(o, upEngines, endpoint, keys))
	}
	for _, pool := range hosted.Pools() {
		all = append(all, driver(o, pool, endpoint, keys, "--engine-secrets", hosted.Secrets))
	}
	return all
}

// driver returns the agent of a pool of engines.
func driver(o upOptions, pool, endpoint string, keys credentials.Keys, more ...string) *process {
	args := []string{"agent", "--pool", pool, "--endpoint", endpoint, "--work-dir", filepath.Join(o.data, "work", pool),
		"--ca-file", keys.CAFile}
	return &process{leaves: true, config: localstack.ChildConfig{
		Name: "agent " + pool, Args: append(args, more...),
		Output: os.Stderr, Grace: agentsGo, Env: append(os.Environ(), "REELAY_API_KEY="+keys.WorkerKey),
	}}
}
