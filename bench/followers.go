package bench

import (
	"context"
	"fmt"

	"github.com/reelay/reelay/client"
)

// cancelledTogether is how many of the followed jobs are cancelled in a round.
const cancelledTogether = 500

// followers measures many subscriptions that each follow a different job.
func followers() Measurement {
	return Measurement{
		Name: "followers", Title: "events of 500 of the jobs that are followed, each on a socket of its own", Unit: "events",
		Note: "Eight calls at a time cancel the jobs. Times and memory are as for subscriptions.",
		Prepare: func(ctx context.Context, s *Site) ([]Contestant, error) {
			n := s.n(4000, 20)
			if err := enoughFiles(n); err != nil {
				return nil, err
			}
			own, err := s.followers(ctx, n)
			return []Contestant{{Name: reelay, Role: Ours, Round: own.round}}, err
		},
	}
}

// followers returns an audience that follows one queued job each. Every round cancels some
// of the jobs.
func (s *Site) followers(ctx context.Context, n int) (*audience, error) {
	endpoint, owner, err := s.followed(ctx)
	if err != nil {
		return nil, err
	}
	followed, err := submitWaiting(ctx, owner, n)
	if err != nil {
		return nil, err
	}
	a := &audience{server: s.Staff["api-1"], members: n, hear: max(1, min(cancelledTogether, n/s.Effort.Rounds))}
	rest := followed
	a.happen = func(ctx context.Context) error {
		if len(rest) < a.hear {
			return fmt.Errorf("%d jobs are too few for so many rounds: raise --n", n)
		}
		now := rest[:a.hear]
		rest = rest[a.hear:]
		return atOnce(ctx, len(now), func(ctx context.Context, i int) error {
			_, err := owner.CancelJob(ctx, now[i])
			return err
		})
	}
	return a, a.open(ctx, s, endpoint, s.socketKeys(ctx), func(i int) string { return followed[i] })
}

// submitWaiting submits n jobs that no worker will lease, and returns their ids.
func submitWaiting(ctx context.Context, owner *client.Client, n int) ([]string, error) {
	const each = 500
	ids := make([]string, 0, n)
	for len(ids) < n {
		many := make([]client.SubmitJobInput, min(each, n-len(ids)))
		for i := range many {
			many[i] = client.SubmitJobInput{Type: new(noop), Model: noop}
		}
		made, err := owner.SubmitJobs(ctx, many)
		if err != nil {
			return nil, err
		}
		if made.Rejected > 0 {
			return nil, fmt.Errorf("%d jobs of %d were refused", made.Rejected, len(many))
		}
		for _, result := range made.Results {
			ids = append(ids, result.Job.Id)
		}
	}
	return ids, nil
}
