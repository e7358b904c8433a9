package webhooks_test

import (
	"testing"
	"time"

	"github.com/reelay/reelay/models/modelstest"
	"github.com/reelay/reelay/models/webhooks"
	"github.com/stretchr/testify/require"
)

// delivered writes 40 endpoints and their deliveries. One fails and has a long backlog that is due,
// one has a long backlog for later, and the others have five due deliveries each.
var delivered = []string{
	`SET session_replication_role = replica`,
	`INSERT INTO accounts (id, name, tier, max_queued, max_running, submits_per_minute, queued, running)
		SELECT md5('a' || i)::uuid, 'a' || i, 'PRO', 1, 1, 1, 0, 0 FROM generate_series(1, 20) i`,
	`INSERT INTO webhook_endpoints (id, account_id, url, events, secret, secret_key, failing_since, failed_tries)
		SELECT md5('e' || i)::uuid, md5('a' || 1 + i / 2)::uuid, 'https://example.com/' || i, '{job.completed}', '', '',
			CASE WHEN i = 1 THEN now() END, (i = 1)::int FROM generate_series(0, 39) i`,
	`INSERT INTO webhook_deliveries (id, event_id, endpoint_id, account_id, job_id, run, event, url, state, next_attempt_at, delivered_at)
		SELECT gen_random_uuid(), md5('t' || i)::uuid, md5('e' || e)::uuid, md5('a' || 1 + e / 2)::uuid, md5('j' || i)::uuid, 1, 'job.completed', 'https://example.com/',
			CASE WHEN due IS NULL THEN 'DELIVERED' ELSE 'PENDING' END, due, CASE WHEN due IS NULL THEN now() END
		FROM (SELECT i, CASE WHEN i <= 5000 THEN 1 WHEN i <= 10000 THEN 2 ELSE 3 + i % 37 END AS e,
			CASE WHEN i <= 5000 OR i > 19815 THEN now() - make_interval(secs => i) WHEN i <= 10000 THEN now() + interval '1 h' END AS due
			FROM generate_series(1, 20000) i) numbered`,
	`ANALYZE`,
}

func TestClaimDeliveries(t *testing.T) {
	t.Parallel()

	t.Run("DoesNotReadTheBacklog", func(t *testing.T) {
		t.Parallel()

		db := modelstest.DB(t)
		conn, err := db.Conn(t.Context())
		require.NoError(t, err)
		defer conn.Close()
		for _, query := range delivered {
			_, err := conn.ExecContext(t.Context(), query)
			require.NoError(t, err)
		}
		last := &modelstest.LastQuery{}
		bounds := webhooks.Bounds{PerEndpoint: 4, PerAccount: 8, Failing: 1}

		claimed, err := webhooks.ClaimDeliveries(t.Context(), db.WithQueryHook(last), bounds, 50, time.Minute)
		require.NoError(t, err)
		require.Equal(t, 50, len(claimed))
		_, err = conn.ExecContext(t.Context(),
			"UPDATE webhook_deliveries SET claimed_until = NULL, next_attempt_at = now() WHERE claimed_until IS NOT NULL")
		require.NoError(t, err)

		for _, underWay := range []string{"nothing", "50 of them"} { // claimed by the first round
			plan := modelstest.Explain(t, db, last.Text, "webhook_deliveries")

			require.NotContains(t, plan.Text, "Seq Scan on webhook_deliveries", underWay)
			require.NotContains(t, plan.Text, " on jobs", underWay)
			require.LessOrEqual(t, plan.Rows, 1000, "%s is under way; it reads too much:\n%s", underWay, plan.Text)
		}
	})
}
