package bench

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/google/uuid"
	"github.com/reelay/reelay/client"
	"golang.org/x/sync/errgroup"
)

// Site is a Reelay that is measured, and what is beside it.
type Site struct {
	// Admin may make accounts and keys.
	Admin *client.Client
	// DatabaseURL and RedisURL are the stores of this Reelay. The limit and the
	// peers use the same servers; without them they are not measured.
	DatabaseURL, RedisURL string
	// Staff are the processes of this Reelay and its stores by name, as `up` calls
	// them, if they run here.
	Staff map[string]Process
	// Peers is the program of bench/peers, if it could be had.
	Peers *Peers
	// Effort is how long it all may take.
	Effort Effort
	// Say tells how things go.
	Say func(line string)

	endpoint *url.URL
	house    string // the newest account
	lacks    []string
	closers  []func(context.Context) error
}

// Effort is how much is measured.
type Effort struct {
	// Span is how long a round of one contestant takes.
	Span time.Duration
	// Rounds is how many there are.
	Rounds int
	// Minutes is how long the daily load lasts.
	Minutes float64
	// N is how many jobs are picked up in a round, or how many subscriptions are
	// open; 0 leaves it to the measurement.
	N int
	// Rows are the sizes of the history for the growth.
	Rows []int
	// Small makes everything that has a size small, for a try.
	Small bool
}

// sized is n, or few if everything shall be small.
func (s *Site) sized(n, few int) int {
	if s.Effort.Small {
		return few
	}
	return n
}

// n is what is asked for, or usual.
func (s *Site) n(usual, few int) int {
	if s.Effort.N > 0 {
		return s.Effort.N
	}
	return s.sized(usual, few)
}

// Lacks notes what could not be measured, and why.
func (s *Site) Lacks(what string, err error) {
	line := fmt.Sprintf("%s could not be had: %v", what, err)
	s.lacks = append(s.lacks, line)
	s.Say(line)
}

// later has something done once the measurement is over, the last thing first.
func (s *Site) later(end func(context.Context) error) { s.closers = append(s.closers, end) }

// clear ends what the last measurement has begun.
func (s *Site) clear(ctx context.Context) error {
	var failed []error
	for i := len(s.closers) - 1; i >= 0; i-- {
		failed = append(failed, s.closers[i](ctx))
	}
	s.closers = nil
	return errors.Join(failed...)
}

// accountsOfBench share the load, as customers do.
const accountsOfBench = 8

// customers makes accounts whose limits are not what is measured, in the tier
// that is never OVERLOADED, and returns a key of each.
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

// key makes a key that is good for a day.
func (s *Site) key(ctx context.Context, account string, role client.Role) (string, error) {
	made, err := s.Admin.CreateAPIKey(ctx, account, role, "bench", time.Now().Add(24*time.Hour))
	if err != nil {
		return "", err
	}
	return made.Secret, nil
}

// worker is one that takes jobs and renders nothing.
type worker struct {
	*client.Client
	id, token string
}

// workers registers workers that take jobs of one model. They go when the
// measurement is over.
func (s *Site) workers(ctx context.Context, n int, model string) ([]worker, error) {
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
		r, err := enrol.RegisterWorker(ctx, client.RegisterWorkerInput{
			Provider: "bench", ProviderInstanceId: "bench-" + uuid.NewString(), Region: "local", GpuType: "any",
			CapacityClass: client.CapacityClassOnDemand, Models: []string{model}, AgentVersion: "bench",
		})
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

// atOnce calls do for 0 to n-1, some of them at once.
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
