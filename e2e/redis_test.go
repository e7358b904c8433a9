package e2e

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/reelay/reelay/adapters/tasks"
	"github.com/reelay/reelay/internal/localstack/redistest"
	"github.com/reelay/reelay/internal/redisurl"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/web/console/system"
	"github.com/stretchr/testify/require"
)

// chosenRedis starts the Redis that REELAY_TEST_REDIS names for a stack with these variables. It
// returns nil if it names none, or the variables do: then the stack starts its own, or uses that.
func chosenRedis(env []string) (*redistest.Redis, error) {
	named := func(variable string) bool { return strings.HasPrefix(variable, "REDIS_URL=") }
	if os.Getenv("REELAY_TEST_REDIS") == "" || slices.ContainsFunc(env, named) {
		return nil, nil
	}
	return redistest.StartChosen(context.Background(), redistest.Config{Replicas: 1})
}

// failOver kills the primary, and returns when a replica has its place.
func failOver(t *testing.T, server *redistest.Redis) {
	t.Helper()
	primary := server.Primary(t.Context(), "{reelay}:epoch")
	primary.Kill()
	testrun.Eventually(t, "a replica takes the primary's place", func() bool {
		now := server.Primary(t.Context(), "{reelay}:epoch")
		return now != nil && now != primary
	})
}

// TestRedis runs all of Reelay over TLS, with the rights that docs/operators/redis.md lists, on each form
// of Redis.
func TestRedis(t *testing.T) {
	t.Parallel()

	for name, mode := range map[string]redisurl.Mode{
		"NeedsOnlyTheListedRightsOnAServer":      redisurl.Server,
		"NeedsOnlyTheListedRightsWithSentinels":  redisurl.Sentinel,
		"NeedsOnlyTheListedRightsWithTheCluster": redisurl.Cluster,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, err := redistest.Start(t.Context(), redistest.Config{Mode: mode, TLS: true, Replicas: 1})
			require.NoError(t, err)
			t.Cleanup(func() { server.Stop(context.Background()) })
			url, err := server.Limit(t.Context(), "../docs/operators/redis.md")
			require.NoError(t, err)
			s, err := launchWith([]string{"REDIS_URL=" + url}, dataDir(t), "--agents", "1")
			require.NoError(t, err)
			s.endWith(t)

			until(t, s.client(t), submit(t, s.client(t), "under few rights", 1, 0), completed)
			report := s.document(t, "doctor")
			address, err := redisurl.Parse(url)
			require.NoError(t, err)
			monitor := system.Monitor(tasks.Queue{Address: address})
			defer monitor.Close()
			for _, path := range []string{
				"queues", "queues/enterprise", "queues/enterprise/pending_tasks", "queues/enterprise/active_tasks",
				"queues/enterprise/retry_tasks", "queues/enterprise/archived_tasks", "queues/enterprise/completed_tasks",
				"queue_stats", "servers", "redis_info", "scheduler_entries",
			} {
				answer := httptest.NewRecorder()
				monitor.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/asynqmon/api/"+path, nil))
				require.Equal(t, http.StatusOK, answer.Code, "%s: %s", path, answer.Body)
			}

			for _, f := range report["findings"].([]any) {
				f := f.(map[string]any)
				if strings.HasPrefix(f["check"].(string), "redis") || f["check"] == "ready-index" {
					require.Equal(t, "OK", f["level"], f)
				}
			}
			refused, err := server.Refused(t.Context())
			require.NoError(t, err)
			require.Empty(t, refused)
		})
	}
}
