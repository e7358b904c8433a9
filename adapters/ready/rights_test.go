package ready_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/reelay/reelay/adapters/ready"
	"github.com/reelay/reelay/features/doctor"
	"github.com/reelay/reelay/internal/localstack/redistest"
	"github.com/reelay/reelay/internal/redisurl"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs"
	"github.com/stretchr/testify/require"
)

// rightsPage lists the least rights.
const rightsPage = "../../docs/operators/redis.md"

func start(t *testing.T, config redistest.Config) *redistest.Redis {
	t.Helper()
	server, err := redistest.Start(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { server.Stop(context.Background()) })
	return server
}

// found returns what one check found.
func found(t *testing.T, findings []doctor.Finding, check string) doctor.Finding {
	t.Helper()
	for _, f := range findings {
		if f.Check == check {
			return f
		}
	}
	require.FailNow(t, "no finding", check)
	return doctor.Finding{}
}

func TestRights(t *testing.T) {
	t.Parallel()

	t.Run("AreThoseOfTheDocumentation", func(t *testing.T) {
		t.Parallel()

		text, err := os.ReadFile(rightsPage)
		require.NoError(t, err)
		var listed []string
		for line := range strings.Lines(string(text)) {
			rules, ok := strings.CutPrefix(line, "ACL SETUSER reelay ")
			if !ok || strings.Contains(line, "+sentinel|") {
				continue
			}
			for rule := range strings.FieldsSeq(rules) {
				if strings.ContainsAny(rule[:1], "+~&") {
					listed = append(listed, rule)
				}
			}
		}

		require.ElementsMatch(t, ready.Rights(redisurl.Cluster), listed)
	})

	t.Run("AreNamedIfTheyAreMissing", func(t *testing.T) {
		t.Parallel()
		server := start(t, redistest.Config{})
		url, err := server.Limit(t.Context(), rightsPage)
		require.NoError(t, err)
		examiner := examiner(t, url)
		require.Equal(t, doctor.LevelOK, found(t, examiner.Examine(t.Context()), "redis-rights").Level)

		for _, right := range ready.Rights(redisurl.Server) {
			lacking := strings.Replace(right, "+", "-", 1)
			command := []any{"ACL", "SETUSER", "reelay", lacking}
			switch {
			case strings.HasPrefix(right, "~"):
				command = []any{"ACL", "SETUSER", "reelay", "resetkeys", other(right)}
			case strings.HasPrefix(right, "&"):
				command = []any{"ACL", "SETUSER", "reelay", "resetchannels", other(right)}
			}
			require.NoError(t, redistest.Run(t.Context(), server.Nodes, command...))

			findings := examiner.Examine(t.Context())

			if right == "+ping" { // then nothing else is known
				require.Contains(t, found(t, findings, "redis").Found, "'ping' command")
			} else {
				f := found(t, findings, "redis-rights")
				require.Equal(t, "It lacks "+right+".", f.Found)
				require.Contains(t, f.Fix, "ACL SETUSER reelay "+right+",")
			}
			require.NoError(t, redistest.Run(t.Context(), server.Nodes, "ACL", "SETUSER", "reelay", right))
		}
		require.Equal(t, doctor.LevelOK, found(t, examiner.Examine(t.Context()), "redis-rights").Level)
	})

	t.Run("AreInTheErrorOfAScript", func(t *testing.T) {
		t.Parallel()
		server := start(t, redistest.Config{})
		url, err := server.Limit(t.Context(), rightsPage)
		require.NoError(t, err)
		require.NoError(t, redistest.Run(t.Context(), server.Nodes, "ACL", "SETUSER", "reelay", "-zadd"))
		index := ready.New(examiner(t, url).Client, "reelay").Patient()

		err = index.Rebuild(t.Context(), []jobs.ReadyJob{job("1", "PRO", "a", 1, 0)})

		require.ErrorIs(t, err, jobs.ErrIndexLost)
		require.ErrorContains(t, err, "the user of REDIS_URL lacks a right, which `reelay doctor` names")
	})
}

// other is the pattern of keys or channels beside that of a right.
func other(right string) string {
	if strings.HasSuffix(right, "asynq:*") {
		return right[:1] + "{reelay}:*"
	}
	return right[:1] + "asynq:*"
}

func TestArrangement(t *testing.T) {
	t.Parallel()

	t.Run("IsExaminedWithSentinels", func(t *testing.T) {
		t.Parallel()
		server := start(t, redistest.Config{Mode: redisurl.Sentinel})
		url, err := server.Limit(t.Context(), rightsPage)
		require.NoError(t, err)

		findings := examiner(t, url).Examine(t.Context())
		require.Empty(t, advised(findings), findings)
		require.Contains(t, findings[0].Holds, "a primary with Sentinels, 1 replica, version 7.")
		server.Sentinels[0].Kill()
		require.NoError(t, redistest.Run(t.Context(), server.Sentinels[1:2], "SENTINEL", "REMOVE", "main"))
		server.Nodes[1].Kill()
		client := server.Nodes[0].Client()
		defer client.Close()
		testrun.Eventually(t, "the primary has no replica", func() bool {
			info, err := redisurl.Info(t.Context(), client.(*redis.Client))
			return err == nil && info["connected_slaves"] == "0"
		})

		findings = examiner(t, url).Examine(t.Context())
		require.Equal(t, []string{"redis-sentinels", "redis-replicas"}, advised(findings))
		said := found(t, findings, "redis-sentinels").Found
		require.Contains(t, said, "connection refused")
		require.Contains(t, said, "it watches no primary named main")
		require.Equal(t, "It has no replica.", found(t, findings, "redis-replicas").Found)
	})

	t.Run("IsExaminedInACluster", func(t *testing.T) {
		t.Parallel()
		server := start(t, redistest.Config{Mode: redisurl.Cluster, Away: soon})
		url, err := server.Limit(t.Context(), rightsPage)
		require.NoError(t, err)

		findings := examiner(t, url).Examine(t.Context())
		require.Equal(t, []string{"redis-replicas"}, advised(findings), findings)
		require.Contains(t, findings[0].Holds, "a cluster of 3 primaries, 0 replicas, version 7.")
		require.Contains(t, found(t, findings, "redis-replicas").Found, ": It has no replica. 127.0.0.1:")
		server.Nodes[0].Kill()
		testrun.Eventually(t, "the cluster fails", func() bool {
			return strings.HasPrefix(found(t, examiner(t, url).Examine(t.Context()), "redis-cluster").Found, "Its state is fail")
		})
	})
}
