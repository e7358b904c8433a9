package bench

import (
	"context"
)

const progressQuery = "mutation reportProgress($input: ProgressInput!) { reportProgress(input: $input) { leaseExpiresAt directive { action reason } } }"

// progress measures the report that each worker makes every five seconds.
func progress() Measurement {
	return Measurement{
		Name: "progress", Title: "progress reports, 32 clients for 320 workers", Unit: "reports",
		Note: "Ours: GraphQL over HTTP; checks the token and the fence, stores the progress, extends the lease; one event for each per cent or every 5 s.",
		Prepare: func(ctx context.Context, s *Site) ([]Contestant, error) {
			steps, err := s.beating(ctx, progressQuery, func(l lease, i int) any {
				return map[string]any{"attemptId": l.attempt, "fencingToken": l.token, "percent": float64(i % 100), "phase": "RENDERING", "step": i}
			})
			if err != nil {
				return nil, err
			}
			all := []Contestant{s.hot(ours(s, steps), "jobs")}
			return s.limit(ctx).with(all, func(l *limit) Contestant {
				return l.contestant("progress", heartbeatClients, 1, liveAttempts, "an attempt and a job of 4,000, one statement, one commit")
			}), nil
		},
	}
}
