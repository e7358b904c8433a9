package main

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/internal/services"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/seal"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	modelstest.Main(m.Run)
}

// strained is an API, with all its wiring, whose stores a test may strain.
type strained struct {
	*stack
	customer *client.Client
	worker   *client.Client
	workerID string
}

func newStrained(t *testing.T) *strained {
	t.Helper()
	ctx := t.Context()
	objects, err := services.StartObjects(services.ObjectsConfig{Dir: t.TempDir(), Bucket: "reelay-test"})
	require.NoError(t, err)
	t.Cleanup(func() { objects.Stop(context.Background()) })
	cache, err := services.StartRedis(ctx, services.RedisConfig{Test: true})
	require.NoError(t, err)
	t.Cleanup(func() { cache.Stop(context.Background()) })
	secrets := filepath.Join(t.TempDir(), "secrets.json")
	_, err = seal.LoadOrCreate(secrets)
	require.NoError(t, err)

	server := httptest.NewUnstartedServer(nil)
	publicURL := "http://" + server.Listener.Addr().String()
	s, err := openStack(ctx, config{
		databaseURL: modelstest.DSN(t), databaseMax: 8, redisURL: cache.URL(),
		bucket: objects.Bucket(), emulatorHost: objects.Host(), secretsFile: secrets,
	}, publicURL)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	server.Config.Handler = s.handler(publicURL)
	server.Start()
	t.Cleanup(server.Close)

	account := jobs.NewAccount("customer", models.TierPro)
	require.NoError(t, models.InsertAccount(ctx, s.db, account))
	caller := func(role models.Role) *client.Client {
		_, secret, err := s.keys().Create(ctx, jobs.Host, jobs.NewKey{AccountID: account.ID, Role: role, Name: "test"})
		require.NoError(t, err)
		c, err := client.New(publicURL, secret, client.WithTries(1))
		require.NoError(t, err)
		return c
	}
	registered, err := caller(models.RoleWorker).RegisterWorker(ctx, client.RegisterWorkerInput{
		Provider: "static", ProviderInstanceId: "one", Region: "local", GpuType: "any",
		CapacityClass: client.CapacityClassSpot, Models: []string{"testcard"}, WarmModels: []string{}, AgentVersion: "test",
	})
	require.NoError(t, err)
	customer := caller(models.RoleClient)
	return &strained{s, customer, customer.WithKey(registered.WorkerToken), registered.Worker.Id}
}

func (s *strained) submit() error {
	_, err := s.customer.SubmitJob(context.Background(), client.SubmitJobInput{Model: "testcard", Prompt: new("a lighthouse in the fog")})
	return err
}

// lease gives the worker a job.
func (s *strained) lease(t *testing.T) client.HeartbeatInput {
	t.Helper()
	require.NoError(t, s.submit())
	answer, err := s.worker.LeaseJob(t.Context(), client.LeaseJobInput{WorkerId: s.workerID})
	require.NoError(t, err)
	require.NotNil(t, answer.Lease)
	return client.HeartbeatInput{AttemptId: answer.Lease.AttemptId, FencingToken: answer.Lease.FencingToken}
}

// beat has the worker renew its lease, which must not take long.
func (s *strained) beat(t *testing.T, in client.HeartbeatInput, within time.Duration) {
	t.Helper()
	clock := testrun.StartQuietClock()
	_, err := s.worker.Heartbeat(t.Context(), in)
	require.NoError(t, err)
	require.Less(t, clock.Elapsed(), within)
}

// TestStrain is about a PostgreSQL that has not enough for all: what keeps leases
// alive goes on.
func TestStrain(t *testing.T) {
	t.Parallel()

	t.Run("OnTheConnectionsLeavesTheWorkersTheirs", func(t *testing.T) {
		t.Parallel()
		s := newStrained(t)
		lease := s.lease(t)
		for range s.cfg.databaseMax - s.cfg.databaseMax/2 {
			tx, err := s.db.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			defer tx.Rollback()
		}
		var floods sync.WaitGroup
		for range 20 {
			floods.Go(func() {
				clock := testrun.StartQuietClock()
				err := s.submit()
				if client.ErrorCode(err) != client.CodeUnavailable || clock.Elapsed() > 10*time.Second {
					t.Errorf("a submit that finds no connection: %v after %s", err, clock.Elapsed())
				}
			})
		}

		for range 20 {
			s.beat(t, lease, 2*time.Second)
		}

		floods.Wait()
	})

	t.Run("OnTheDiskHoldsUpNoLease", func(t *testing.T) {
		t.Parallel()
		s := newStrained(t)
		lease := s.lease(t)
		// As on a slow disk, each commit takes its time, and holds its locks.
		for _, query := range []string{
			`CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.3); RETURN NULL; END $$`,
			`CREATE CONSTRAINT TRIGGER slow AFTER INSERT OR UPDATE ON jobs DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow()`,
			`CREATE CONSTRAINT TRIGGER slow AFTER INSERT OR UPDATE ON job_attempts DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow()`,
		} {
			_, err := s.db.ExecContext(t.Context(), query)
			require.NoError(t, err)
		}
		var flood sync.WaitGroup
		for range 20 {
			flood.Go(func() {
				// Those who wait too long for their account's row are told so.
				if err := s.submit(); err != nil && client.ErrorCode(err) != client.CodeUnavailable {
					t.Errorf("a submit to a slow disk: %v", err)
				}
			})
		}

		for range 5 {
			s.beat(t, lease, 5*time.Second)
		}

		flood.Wait()
		var queued int
		require.NoError(t, s.db.NewRaw("SELECT count(*) FROM jobs WHERE status = 'QUEUED'").Scan(t.Context(), &queued))
		require.Positive(t, queued, "it is slow, and works")
		for _, which := range models.Invariants {
			broken, err := models.FindViolations(t.Context(), s.db, which, jobs.Examination(), 20)
			require.NoError(t, err)
			require.Empty(t, broken.IDs, which)
		}
	})
}

func TestOpenStack(t *testing.T) {
	t.Parallel()

	t.Run("RefusesAnotherKeyset", func(t *testing.T) {
		t.Parallel()
		s := newStrained(t)
		require.NoError(t, s.submit())
		again := s.cfg
		again.secretsFile = filepath.Join(t.TempDir(), "other.json")
		_, err := seal.LoadOrCreate(again.secretsFile)
		require.NoError(t, err)

		_, err = openStack(t.Context(), again, "http://127.0.0.1:1")

		require.ErrorContains(t, err, "use the secrets file it was sealed with")
	})
}

func TestOpenAPI(t *testing.T) {
	t.Parallel()

	t.Run("SaysThatItIsNotReadyUntilPostgreSQLIsThere", func(t *testing.T) {
		t.Parallel()
		s := newStrained(t)
		late := s.cfg
		dsn, proxy := modelstest.Proxied(t)
		late.databaseURL = dsn
		proxy.Cut()
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		address := "http://" + listener.Addr().String()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- openAPI(ctx, late, listener, address) }()
		status := func(path string) int {
			answer, err := http.Get(address + path)
			require.NoError(t, err)
			defer answer.Body.Close()
			return answer.StatusCode
		}

		require.Equal(t, http.StatusOK, status("/healthz"))
		require.Equal(t, http.StatusServiceUnavailable, status("/readyz"))
		require.Equal(t, http.StatusServiceUnavailable, status("/graphql"))
		proxy.Heal()

		testrun.Eventually(t, "it is ready again", func() bool { return status("/readyz") == http.StatusOK })
		stop()
		require.NoError(t, <-ended)
	})
}

func TestAwaitDatabase(t *testing.T) {
	t.Parallel()

	t.Run("WaitsUntilItIsThere", func(t *testing.T) {
		t.Parallel()
		dsn, proxy := modelstest.Proxied(t)
		proxy.Cut()
		opened := make(chan error, 1)
		go func() {
			_, closeDB, err := awaitDatabase(t.Context(), dsn, 1)
			if err == nil {
				closeDB()
			}
			opened <- err
		}()
		testrun.Eventually(t, "it has tried to connect", func() bool { return proxy.Refused() >= 3 })

		proxy.Heal()

		require.NoError(t, <-opened)
	})

	t.Run("EndsWhenItIsToldTo", func(t *testing.T) {
		t.Parallel()
		dsn, proxy := modelstest.Proxied(t)
		proxy.Cut()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(0, cancel)

		_, _, err := awaitDatabase(ctx, dsn, 1)

		require.ErrorIs(t, err, context.Canceled)
	})

	t.Run("SaysAtOnceWhatCannotWork", func(t *testing.T) {
		t.Parallel()
		dsn, err := url.Parse(modelstest.DSN(t))
		require.NoError(t, err)
		dsn.Path = "/nowhere"

		_, _, err = awaitDatabase(t.Context(), dsn.String(), 1)

		require.ErrorContains(t, err, `database "nowhere" does not exist`)
	})
}
