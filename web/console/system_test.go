package console

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/doctor"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

var _ = alsoPages(func(*testing.T, *browser) map[string]string {
	return map[string]string{"doctor": "/doctor", "system": "/system"}
})

func TestDoctorPage(t *testing.T) {
	t.Parallel()

	t.Run("ShowsWhatIsWrongAndWhatToDo", func(t *testing.T) {
		t.Parallel()
		stack := jobstest.New(t)
		config := configure(stack)
		var problem error
		config.Examine = func(context.Context) ([]doctor.Finding, error) {
			return []doctor.Finding{
				{Check: "redis", Level: doctor.LevelOK, Holds: "Redis answers."},
				{Check: "schema", Level: doctor.LevelBroken, Holds: "The schema is current.", Found: "It is <old>.", Matters: "Queries fail.", Fix: "Run reelay migrate."},
			}, problem
		}
		b := serve(t, stack, config)
		b.logIn(t)
		require.Contains(t, b.get(t, "/doctor").Body, "Run the checks")

		got := b.post(t, "/doctor", nil)
		require.Equal(t, http.StatusOK, got.Status)
		require.Contains(t, got.Body, "1 of 2 checks passed")
		for _, text := range []string{"is-broken", "It is &lt;old&gt;.", "Queries fail.", "Run reelay migrate.", "Redis answers."} {
			require.Contains(t, got.Body, text)
		}

		problem = errors.New("PostgreSQL is away")
		require.Contains(t, b.post(t, "/doctor", nil).Body, "PostgreSQL is away")
	})

	t.Run("RunsOneExaminationAtATime", func(t *testing.T) {
		t.Parallel()
		stack := jobstest.New(t)
		config := configure(stack)
		began, end := make(chan struct{}), make(chan struct{})
		config.Examine = func(context.Context) ([]doctor.Finding, error) {
			close(began)
			<-end
			return nil, nil
		}
		b := serve(t, stack, config)
		b.logIn(t)
		first := make(chan int)
		go func() { first <- b.post(t, "/doctor", nil).Status }()
		<-began

		second := b.post(t, "/doctor", nil)
		close(end)

		require.Equal(t, http.StatusConflict, second.Status)
		require.Contains(t, second.Body, `href="/doctor">Back to doctor</a>`)
		require.Equal(t, http.StatusOK, <-first)
	})
}

func TestSystemPage(t *testing.T) {
	t.Parallel()

	t.Run("ShowsWhatReelayRunsOn", func(t *testing.T) {
		t.Parallel()
		stack := jobstest.New(t)
		config := configure(stack)
		config.Redis = func(context.Context) *Redis {
			return &Redis{Version: "7.0.<15>", Ping: 1234 * time.Microsecond, UsedBytes: new(int64(3 << 20)), Replicas: new(int64(1)), BehindBytes: new(int64(2048))}
		}
		b := serve(t, stack, config)
		b.logIn(t)
		b.Worker(t, "one")
		b.Exec(t, "UPDATE workers SET agent_version = '0.0.1-old'")
		b.Exec(t, "INSERT INTO api_processes (id, seen_at) VALUES ('a1b2c3d4-0000-4000-8000-000000000000', clock_timestamp() - interval '1 minute')")

		page := b.get(t, "/system").Body
		first, second := &jobs.Presence{DB: b.DB, Kind: models.ProcessAPI, Version: "0.1.0", Host: "host-<a>"}, &jobs.Presence{DB: b.DB, Kind: models.ProcessControl, Version: "0.2.0"}
		require.NoError(t, first.Pass(t.Context()))
		require.NoError(t, second.Pass(t.Context()))
		told := b.get(t, "/system").Body
		second.End(t.Context())
		alone := b.get(t, "/system").Body

		require.Contains(t, told, "The processes run different versions.")
		require.Regexp(t, `(?s)api [0-9a-f]{8}.*?0\.1\.0.*?host-&lt;a&gt;.*?control [0-9a-f]{8}.*?0\.2\.0`, told)
		require.NotContains(t, alone, "different versions")
		require.Contains(t, alone, ">control<", "some process of control may not tell its version")
		require.Regexp(t, `(?s)Answers in.*?1\.2 ms.*?behind by`, page)

		for _, text := range []string{"7.0.&lt;15&gt;", "api a1b2c3d4", "is-silent", ">control<", "0.0.1-old", "Some workers run another version", "Oldest message of the outbox"} {
			require.Contains(t, page, text)
		}
	})
}
