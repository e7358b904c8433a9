package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// ask sends a GraphQL request and decodes its data.
func (s *stack) ask(ctx context.Context, t *testing.T, key, query string, variables map[string]any, data any) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.keys.Endpoint+"/graphql", bytes.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	answer := struct {
		Data   json.RawMessage
		Errors []map[string]any
	}{}
	require.NoError(t, json.NewDecoder(res.Body).Decode(&answer))
	require.Empty(t, answer.Errors)
	require.NoError(t, json.Unmarshal(answer.Data, data))
}

type poolStatus struct {
	Pools []struct {
		Desired, Booting, Idle, Busy, Draining int
		ScalingHistory                         []struct {
			From, To int
			Reason   string
		}
	}
}

func TestScaler(t *testing.T) {
	t.Parallel()

	t.Run("GrowsUnderABurstAndShrinksAfterIt", func(t *testing.T) {
		t.Parallel()

		s := start(t, "--agents", "1", "--agents-max", "3", "--agents-idle", "1")
		c := s.client(t)
		var ids []string
		for range 8 {
			ids = append(ids, submit(t, c, "one of many", 2, 10))
		}
		pool := func() (p poolStatus) {
			s.ask(t.Context(), t, s.keys.OperatorKey,
				`{ pools { desired booting idle busy draining scalingHistory { from to reason } } }`, nil, &p)
			require.Len(t, p.Pools, 1)
			return p
		}

		testrun.Eventually(t, "three workers are busy", func() bool {
			return pool().Pools[0].Busy == 3
		})
		grown := pool().Pools[0]
		for _, id := range ids {
			_, err := c.CancelJob(t.Context(), id)
			require.NoError(t, err)
		}
		testrun.Eventually(t, "one worker is left", func() bool {
			p := pool().Pools[0]
			return p.Idle == 1 && p.Busy+p.Booting+p.Draining == 0
		})

		require.Equal(t, 3, grown.Desired)
		require.Equal(t, 3, grown.ScalingHistory[0].To)
		require.Contains(t, grown.ScalingHistory[0].Reason, "workers")
		for _, id := range ids {
			until(t, c, id, func(job *client.Job) bool { return job.Status == client.JobStatusCancelled })
		}
	})
}
