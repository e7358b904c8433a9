package ready_test

import (
	"testing"

	"github.com/reelay/reelay/adapters/ready"
	"github.com/reelay/reelay/features/doctor"
	"github.com/reelay/reelay/internal/redisurl"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs"
	"github.com/stretchr/testify/require"
)

// advised returns the checks that have something to say.
func advised(found []doctor.Finding) []string {
	var checks []string
	for _, f := range found {
		if f.Level != doctor.LevelOK {
			checks = append(checks, f.Check)
		}
	}
	return checks
}

// examiner examines the Redis at a URL.
func examiner(t *testing.T, url string) *ready.Examiner {
	address, err := redisurl.Parse(url)
	require.NoError(t, err)
	return &ready.Examiner{Address: address, Client: closed(t, address.Open(testrun.WaitLimit)), Prefix: "reelay"}
}

func TestExamine(t *testing.T) {
	t.Parallel()

	t.Run("AdvisesOnRedisSettings", func(t *testing.T) {
		t.Parallel()

		server := ownRedis(t)
		client := connect(t, server)
		index, examiner := ready.New(client, "reelay").Patient(), examiner(t, server.URL())
		require.NoError(t, index.Rebuild(t.Context(), []jobs.ReadyJob{job("1", "PRO", "a", 1, 0)}))
		require.NoError(t, client.Set(t.Context(), "asynq:x", 1, 0).Err())
		// The tests' Redis does not persist to disk.
		require.Equal(t, []string{"redis-persistence"}, advised(examiner.Examine(t.Context())))

		require.NoError(t, client.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err())
		require.Equal(t, []string{"redis-persistence", "redis-eviction"}, advised(examiner.Examine(t.Context())))

		require.NoError(t, client.ConfigSet(t.Context(), "maxmemory-policy", "noeviction").Err())
		require.NoError(t, client.Set(t.Context(), "session:1", 1, 0).Err())
		found := examiner.Examine(t.Context())
		require.Equal(t, []string{"redis-persistence", "redis-keys"}, advised(found))
		require.Equal(t, []string{"session"}, found[len(found)-1].IDs)
		require.Equal(t, 1, found[len(found)-1].Count)
	})

	t.Run("ReportsThatRedisIsUnreachable", func(t *testing.T) {
		t.Parallel()

		found := examiner(t, "redis://127.0.0.1:1").Examine(t.Context())

		require.Equal(t, []string{"redis"}, advised(found))
		require.Contains(t, found[0].Found, "connection refused")
	})

	t.Run("RequiresAPasswordAndTLSOnTheNetwork", func(t *testing.T) {
		t.Parallel()

		for url, level := range map[string]doctor.Level{
			"redis://127.0.0.1:6379":               doctor.LevelOK,
			"redis://localhost:6379":               doctor.LevelOK,
			"redis://redis.internal:6379":          doctor.LevelAdvice,
			"redis://:p@10.0.0.1:6379":             doctor.LevelAdvice,
			"rediss://10.0.0.1:6379":               doctor.LevelAdvice,
			"rediss://:p@10.0.0.1:6379":            doctor.LevelOK,
			"redis+cluster://:p@127.0.0.1,a.local": doctor.LevelAdvice,
		} {
			require.Equal(t, level, examiner(t, url).Access().Level, url)
		}
	})
}
