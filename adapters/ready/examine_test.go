package ready_test

import (
	"crypto/tls"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/reelay/reelay/adapters/ready"
	"github.com/reelay/reelay/features/doctor"
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

func TestExamine(t *testing.T) {
	t.Parallel()

	t.Run("AdvisesOnRedisSettings", func(t *testing.T) {
		t.Parallel()

		client := connect(t, ownRedis(t))
		index := ready.New(client, "reelay").Patient()
		require.NoError(t, index.Rebuild(t.Context(), []jobs.ReadyJob{job("1", "PRO", "a", 1, 0)}))
		require.NoError(t, client.Set(t.Context(), "asynq:x", 1, 0).Err())
		// The tests' Redis does not persist to disk.
		require.Equal(t, []string{"redis-persistence"}, advised(index.Examine(t.Context())))

		require.NoError(t, client.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err())
		require.Equal(t, []string{"redis-persistence", "redis-eviction"}, advised(index.Examine(t.Context())))

		require.NoError(t, client.ConfigSet(t.Context(), "maxmemory-policy", "noeviction").Err())
		require.NoError(t, client.Set(t.Context(), "session:1", 1, 0).Err())
		found := index.Examine(t.Context())
		require.Equal(t, []string{"redis-persistence", "redis-keys"}, advised(found))
		require.Equal(t, []string{"session"}, found[len(found)-1].IDs)
		require.Equal(t, 1, found[len(found)-1].Count)
	})

	t.Run("ReportsThatRedisIsUnreachable", func(t *testing.T) {
		t.Parallel()

		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
		defer client.Close()

		require.Equal(t, []string{"redis"}, advised(ready.New(client, "reelay").Examine(t.Context())))
	})

	t.Run("RequiresAPasswordAndTLSOnTheNetwork", func(t *testing.T) {
		t.Parallel()

		for name, c := range map[string]struct {
			options redis.Options
			level   doctor.Level
		}{
			"loopback":         {redis.Options{Addr: "127.0.0.1:6379"}, doctor.LevelOK},
			"this machine":     {redis.Options{Addr: "localhost:6379"}, doctor.LevelOK},
			"a socket":         {redis.Options{Network: "unix", Addr: "/run/redis"}, doctor.LevelOK},
			"open":             {redis.Options{Addr: "redis.internal:6379"}, doctor.LevelAdvice},
			"without TLS":      {redis.Options{Addr: "10.0.0.1:6379", Password: "p"}, doctor.LevelAdvice},
			"without password": {redis.Options{Addr: "10.0.0.1:6379", TLSConfig: &tls.Config{}}, doctor.LevelAdvice},
			"with both":        {redis.Options{Addr: "10.0.0.1:6379", Password: "p", TLSConfig: &tls.Config{}}, doctor.LevelOK},
		} {
			client := redis.NewClient(&c.options)
			defer client.Close()

			require.Equal(t, c.level, ready.New(client, "reelay").Patient().Access().Level, name)
		}
	})
}
