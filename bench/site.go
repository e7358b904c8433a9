package bench

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/google/uuid"
	"github.com/reelay/reelay/bench/procfs"
	"github.com/reelay/reelay/client"
	"golang.org/x/sync/errgroup"
)

// Site is the measured Reelay with its stores and its peers.
type Site struct {
	// Admin is a client that is allowed to create accounts and keys.
	Admin *client.Client
	// DatabaseURL and RedisURL are the stores of this Reelay. The limit and the peers use the
	// same servers and are not measured without them.
	DatabaseURL, RedisURL string
	// Staff are the processes of this Reelay and its stores by their name in `up`, if they
	// run on this machine.
	Staff map[string]procfs.Process
	// Peers is nil if the program of bench/peers is not available.
	Peers *Peers
	// S3 is another Reelay, whose object store is S3, for the measurement of stores.
	S3 *Site
	// Data is the data folder of its `up`, or empty. One that the bench has started keeps its log
	// there.
	Data string
	// Effort says how much to measure.
	Effort Effort
	// Say reports progress.
	Say func(line string)

	endpoint *url.URL
	house    string // the newest account
	lacks    []string
	closers  []func(context.Context) error
}

// Effort says how much to measure.
type Effort struct {
	// Span is the duration of a contestant's round.
	Span time.Duration
	// Rounds is the number of rounds.
	Rounds int
	// Minutes is the duration of the daily load.
	Minutes float64
	// N is the number of jobs picked up in a round, or of open subscriptions. 0 means the
	// default of the measurement.
	N int
	// Rows are the sizes of the history that the growth measurement uses.
	Rows []int
	// Small makes all sizes small, for a trial run.
	Small bool
}

// sized returns n, or few if the effort is small.
func (s *Site) sized(n, few int) int {
	if s.Effort.Small {
		return few
	}
	return n
}

// n returns the requested number, or usual if there is none.
func (s *Site) n(usual, few int) int {
	if s.Effort.N > 0 {
		return s.Effort.N
	}
	return s.sized(usual, few)
}

// Lacks records what cannot be measured and why.
func (s *Site) Lacks(what string, err error) {
	line := fmt.Sprintf("%s is not available: %v", what, err)
	s.lacks = append(s.lacks, line)
	s.Say(line)
}

// later registers a function to call after the measurement, in reverse order.
func (s *Site) later(end func(context.Context) error) { s.closers = append(s.closers, end) }

// clear calls the functions that the last measurement registered.
func (s *Site) clear(ctx context.Context) error {
	var failed []error
	for i := len(s.closers) - 1; i >= 0; i-- {
		failed = append(failed, s.closers[i](ctx))
	}
	s.closers = nil
	return errors.Join(failed...)
}

// accountsOfBench is the number of accounts that share the load.
const accountsOfBench = 8

// customers creates accounts with limits too high to matter, in the tier that never gets
// OVERLOADED, and returns a key of each.
func (s *Site) customers(ctx context.Context, n int) ([]string, error) {
	keys := make([]string, n)
	for i := range keys {
		account, err := s.Admin.CreateAccount(ctx, client.AccountInput{
			Name: new("bench " + uuid.NewString()), Tier: new(client.TierBatch),
			MaxQueued: new(1_000_000), MaxRunning: new(1_000_000), SubmitsPerMinute: new(1_000_000),
		})
		if err != nil {
			return nil, err
		}
		s.house = account.Id
		if keys[i], err = s.key(ctx, account.Id, client.RoleClient); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// key creates a key that is valid for a day.
func (s *Site) key(ctx context.Context, account string, role client.Role) (string, error) {
	made, err := s.Admin.CreateAPIKey(ctx, account, role, "bench", time.Now().Add(24*time.Hour))
	if err != nil {
		return "", err
	}
	return made.Secret, nil
}

// worker is a worker that leases jobs and renders nothing.
type worker struct {
	*client.Client
	id, token string
}

// workers registers workers for one model. They are removed after the measurement.
func (s *Site) workers(ctx context.Context, n int, model string) ([]worker, error) {
	return s.enrol(ctx, n, func(int) client.RegisterWorkerInput {
		return client.RegisterWorkerInput{
			Provider: "bench", ProviderInstanceId: "bench-" + uuid.NewString(), Region: "local", GpuType: "any",
			CapacityClass: client.CapacityClassOnDemand, Models: []string{model}, AgentVersion: "bench",
		}
	})
}

// enrol registers workers as input says. They are removed after the measurement.
func (s *Site) enrol(ctx context.Context, n int, input func(i int) client.RegisterWorkerInput) ([]worker, error) {
	if s.house == "" {
		if _, err := s.customers(ctx, 1); err != nil {
			return nil, err
		}
	}
	enrolment, err := s.key(ctx, s.house, client.RoleWorker)
	if err != nil {
		return nil, err
	}
	enrol, all := s.Admin.WithKey(enrolment), make([]worker, n)
	err = atOnce(ctx, n, func(ctx context.Context, i int) error {
		r, err := enrol.RegisterWorker(ctx, input(i))
		if err == nil {
			all[i] = worker{enrol.WithKey(r.WorkerToken), r.Worker.Id, r.WorkerToken}
		}
		return err
	})
	s.later(func(ctx context.Context) error {
		return atOnce(ctx, n, func(ctx context.Context, i int) error {
			if all[i].Client == nil {
				return nil
			}
			return all[i].DeregisterWorker(ctx, all[i].id)
		})
	})
	return all, err
}

// atOnce calls do for 0 to n-1, several calls at once.
func atOnce(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

// Host is where the API listens.
func (s *Site) host() (string, error) {
	if s.endpoint == nil {
		endpoint, err := url.Parse(s.Admin.Endpoint())
		if err != nil {
			return "", err
		}
		s.endpoint = endpoint
	}
	if s.endpoint.Scheme != "http" {
		return "", errors.New("the bench's client speaks plain HTTP: measure an API at an http address")
	}
	return s.endpoint.Host, nil
}

// Peers holds the paths of the program that measures the peers and of Faktory's server, if
// there is one.
type Peers struct {
	Program, Faktory string
}
