package console

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/web/console/address"
	"github.com/stretchr/testify/require"
)

// machine writes a machine of two workers, which was paid for one hour at $3 an hour and worker.
func (b *browser) machine(t *testing.T, pool *capacity.Pool, name string, hoursAgo int) {
	t.Helper()
	b.Exec(t, `INSERT INTO machines (pool_id, provider, instance_id, workers, asked_at, created_at, registered_at, told_at, gone_at, billed_until)
		SELECT ?, 'cloud', ?, 2, asked, asked, asked + interval '2 minutes', asked, now(), asked + interval '1 hour'
		FROM (SELECT now() - make_interval(hours => ?) AS asked) of`, pool.ID, name, hoursAgo)
}

var _ = alsoPages(func(t *testing.T, b *browser) map[string]string {
	pool := b.pool(t, "ledger", func(s *capacity.PoolSpec) { s.Provider, s.PricePerHourUSD = "cloud", 3 })
	b.machine(t, pool, "vm-with-a-rather-long-name-in-europe-west4-a", 2)
	return map[string]string{"machines": "/pools/machines", "machines of no filter": "/pools/machines?state=asked&instance=none",
		"pool with machines": string(address.Pool(pool.ID))}
})

func TestMachines(t *testing.T) {
	t.Parallel()

	b := operator(t)
	pool := b.pool(t, "cloud <b>", func(s *capacity.PoolSpec) { s.Provider, s.PricePerHourUSD = "cloud", 3 })
	idle := b.pool(t, "quiet", func(s *capacity.PoolSpec) { s.Provider = "cloud" })
	static := b.pool(t, "static", nil)
	worker := b.Worker(t, "vm-55")
	b.Exec(t, "UPDATE workers SET pool_id = ?, provider = 'cloud' WHERE id = ?", pool.ID, worker.WorkerID)
	for i := range 55 {
		b.machine(t, pool, fmt.Sprint("vm-", 55-i), i+1)
	}
	b.Exec(t, "UPDATE machines SET gone_at = NULL, billed_until = NULL, told_at = NULL, missing_at = now() WHERE instance_id = 'vm-55'")
	own := string(address.Pool(pool.ID))

	t.Run("AreOnThePageOfTheirPool", func(t *testing.T) {
		t.Parallel()

		got := b.get(t, own).Body

		require.Regexp(t, `(?s)is-missing">missing</span>.*>vm-55</td>.*>now\s*</td>.*>2\.0\d</td>.*>\$6\.\d\d</td>.*href="/workers/`+string(worker.WorkerID)+
			`".*>vm-54</td>.*>1 h 00 min</td>.*>2 min 00 s</td>.*>2.00</td>.*>\$6.00</td>`, got)
		require.Equal(t, 10, strings.Count(got, `id="machine-`))
		require.Contains(t, got, `href="/pools/machines?pool=cloud+%3Cb%3E"`)
		require.Contains(t, b.get(t, string(address.Pool(idle.ID))).Body, "The provider has not been asked for a machine.")
		require.Contains(t, b.get(t, string(address.Pool(static.ID))).Body, "they are not in the ledger")
	})

	t.Run("HavePages", func(t *testing.T) {
		t.Parallel()

		first := b.get(t, "/pools/machines").Body
		require.Equal(t, 50, strings.Count(first, `id="machine-`))
		require.Contains(t, first, `href="`+own+`">cloud &lt;b&gt;</a>`)
		_, older, found := strings.Cut(first, `rel="next" href="`)
		require.True(t, found)
		older, _, _ = strings.Cut(older, `"`)
		second := b.get(t, older).Body
		require.Equal(t, 5, strings.Count(second, `id="machine-`))
		require.Contains(t, second, `href="/pools/machines">Newest</a>`)
		require.Contains(t, b.get(t, "/pools").Body, `href="/pools/machines">Machines</a>`)
	})

	t.Run("AreNarrowed", func(t *testing.T) {
		t.Parallel()

		for query, want := range map[string]int{
			"pool=" + url.QueryEscape(pool.Name) + "&state=gone": 50, "pool=" + string(pool.ID) + "&state=missing": 1, "pool=quiet": 0,
			"pool=nonesuch": 0, "instance=vm-7": 1, "instance=vm-7&state=running": 0,
		} {
			got := b.get(t, "/pools/machines?"+query)
			require.Equal(t, http.StatusOK, got.Status, query)
			require.Equal(t, want, strings.Count(got.Body, `id="machine-`), query)
			if want == 0 {
				require.Contains(t, got.Body, "No machine matches these filters.")
			}
		}
	})

	t.Run("SayWhatIsWrongWithAnAddress", func(t *testing.T) {
		t.Parallel()

		for query, says := range map[string]string{
			"state=lost":                          "There is no such state of a machine.",
			"instance=%00":                        "holds a character",
			"pool=" + strings.Repeat("x", 10_000): "A filter is too long",
			"after=x":                             "This page of the list no longer exists.",
			"state=gone&after=" + foreignCursor(b, t): "This page of the list no longer exists.",
		} {
			got := b.get(t, "/pools/machines?"+query)
			require.Equal(t, http.StatusUnprocessableEntity, got.Status, query)
			require.Contains(t, got.Body, says, query)
		}
		require.Equal(t, http.StatusOK, b.get(t, "/pools/machines?instance="+url.QueryEscape("'<script>alert(1)</script>")).Status)
	})
}

// foreignCursor is a cursor of the list of all machines.
func foreignCursor(b *browser, t *testing.T) string {
	t.Helper()
	_, cursor, found := strings.Cut(b.get(t, "/pools/machines").Body, `rel="next" href="/pools/machines?after=`)
	require.True(t, found)
	cursor, _, _ = strings.Cut(cursor, `"`)
	return cursor
}
