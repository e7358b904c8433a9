package servers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/reelay/reelay/adapters/blob"
	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/settings"
	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/features/doctor"
	"github.com/reelay/reelay/internal/localstack"
	"github.com/reelay/reelay/internal/seal"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { modelstest.Main(m.Run) }

// strained is a complete API whose stores a test may overload.
type strained struct {
	*stack
	publicURL string
	customer  *client.Client
	worker    *client.Client
	workerID  string
}

func newStrained(t *testing.T) *strained {
	t.Helper()
	return strainedOver(t, modelstest.DSN(t), "")
}

// strainedOver is newStrained over a database, with the models of a folder besides the shipped ones.
func strainedOver(t *testing.T, dsn, folder string) *strained {
	t.Helper()
	ctx := t.Context()
	objects, err := localstack.StartObjects(localstack.ObjectsConfig{Dir: t.TempDir(), Bucket: "reelay-test"})
	require.NoError(t, err)
	t.Cleanup(func() { objects.Stop(context.Background()) })
	cache, err := localstack.StartRedis(ctx, localstack.RedisConfig{Test: true})
	require.NoError(t, err)
	t.Cleanup(func() { cache.Stop(context.Background()) })
	secrets := filepath.Join(t.TempDir(), "secrets.json")
	_, err = seal.LoadOrCreate(secrets)
	require.NoError(t, err)

	server := httptest.NewUnstartedServer(nil)
	publicURL := "http://" + server.Listener.Addr().String()
	s, err := openStack(ctx, settings.Config{
		DatabaseURL: dsn, DatabaseMax: 8, RedisURL: cache.URL(), Models: folder,
		Objects: settings.Objects{Places: blob.Config{
			Place: blob.Place{Kind: blob.KindGoogle, Bucket: objects.Bucket()}, EmulatorHost: objects.Host(),
		}}, SecretsFile: secrets,
	}, publicURL)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	server.Config.Handler = s.handler(publicURL)
	server.Start()
	t.Cleanup(server.Close)

	all := &strained{stack: s, publicURL: publicURL}
	account := all.account(t, "customer", models.TierPro)
	caller := func(role access.Role) *client.Client {
		c, err := client.New(publicURL, all.key(t, account, role), client.WithTries(1))
		require.NoError(t, err)
		return c
	}
	registered, err := caller(access.RoleWorker).RegisterWorker(ctx, client.RegisterWorkerInput{
		Provider: "static", ProviderInstanceId: "one", Region: "local", GpuType: "any",
		CapacityClass: client.CapacityClassSpot, Models: []string{"testcard"}, WarmModels: []string{}, AgentVersion: "test",
	})
	require.NoError(t, err)
	all.customer = caller(access.RoleClient)
	all.worker, all.workerID = all.customer.WithKey(registered.WorkerToken), registered.Worker.Id
	return all
}

// account creates an account without a limit on submits.
func (s *strained) account(t *testing.T, name string, tier models.Tier) models.AccountID {
	t.Helper()
	account := jobs.NewAccount(name, tier)
	account.SubmitsPerMinute, account.MaxQueued = 1_000_000, 1_000_000
	require.NoError(t, models.InsertAccount(t.Context(), s.db, account))
	return account.ID
}

// fill submits n jobs with a key. A slow machine may be too busy for some calls: they are repeated.
func (s *strained) fill(t *testing.T, key string, n int) {
	t.Helper()
	const most = 250
	for range n / most {
		inputs := make([]client.SubmitJobInput, most)
		for i := range inputs {
			inputs[i] = client.SubmitJobInput{Model: "testcard", Prompt: new("a lighthouse in the fog")}
		}
		testrun.Eventually(t, "the jobs are accepted", func() bool {
			answer, err := s.customer.WithKey(key).SubmitJobs(t.Context(), inputs)
			if client.ErrorCode(err) == client.CodeUnavailable {
				return false
			}
			require.NoError(t, err)
			require.Equal(t, len(inputs), answer.Accepted)
			return true
		})
	}
}

// submitsWhile submits one job after another while more returns true for their number, and
// returns the 99th percentile of the durations.
func (s *strained) submitsWhile(t *testing.T, more func(n int) bool) time.Duration {
	t.Helper()
	var took []time.Duration
	for more(len(took)) {
		begun := time.Now()
		require.NoError(t, s.submit())
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	return took[len(took)*99/100]
}

// readMuch sends the most expensive allowed query. If it is refused, it returns the code and
// the retry time.
func (s *strained) readMuch(t *testing.T, key string) (code string, retryAfter float64) {
	query := "{"
	for i := range 30 {
		query += fmt.Sprintf(` a%d: jobs(first: 200, filter: {search: "-class:poison"}) { edges { node { id status prompt createdAt } } }`, i)
	}
	body, err := json.Marshal(map[string]string{"query": query + "}"})
	if err != nil {
		t.Error(err)
	}
	request, err := http.NewRequest(http.MethodPost, s.publicURL+"/graphql", bytes.NewReader(body))
	if err != nil {
		t.Error(err)
		return "", 0
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Error(err)
		return "", 0
	}
	defer response.Body.Close()
	var answer struct {
		Errors []struct {
			Extensions struct {
				Code              string
				RetryAfterSeconds float64
			}
		}
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		t.Error(err)
	}
	if len(answer.Errors) == 0 {
		return "", 0
	}
	return answer.Errors[0].Extensions.Code, answer.Errors[0].Extensions.RetryAfterSeconds
}

func (s *strained) key(t *testing.T, account models.AccountID, role access.Role) string {
	t.Helper()
	_, secret, err := s.keys().Create(t.Context(), jobs.Host, auth.NewKey{AccountID: account, Role: role, Name: "test"})
	require.NoError(t, err)
	return secret
}

func (s *strained) submit() error {
	_, err := s.customer.SubmitJob(context.Background(), client.SubmitJobInput{Model: "testcard", Prompt: new("a lighthouse in the fog")})
	return err
}

// lease leases a job to the worker.
func (s *strained) lease(t *testing.T) client.HeartbeatInput {
	t.Helper()
	require.NoError(t, s.submit())
	answer, err := s.worker.LeaseJob(t.Context(), client.LeaseJobInput{WorkerId: s.workerID})
	require.NoError(t, err)
	require.NotNil(t, answer.Lease)
	return client.HeartbeatInput{AttemptId: answer.Lease.AttemptId, FencingToken: answer.Lease.FencingToken}
}

// beat renews the worker's lease, which must not take long.
func (s *strained) beat(t *testing.T, in client.HeartbeatInput, within time.Duration) {
	t.Helper()
	clock := testrun.StartQuietClock()
	_, err := s.worker.Heartbeat(t.Context(), in)
	require.NoError(t, err)
	require.Less(t, clock.Elapsed(), within)
}

// TestStrain covers a PostgreSQL with too little capacity: leases are still renewed.
func TestStrain(t *testing.T) {
	t.Parallel()

	t.Run("OnConnectionsDoesNotAffectWorkers", func(t *testing.T) {
		t.Parallel()
		s := newStrained(t)
		lease := s.lease(t)
		for range divided(s.cfg).ordinary {
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

	t.Run("OfReadsDoesNotDelaySubmitsOfOtherAccounts", func(t *testing.T) {
		t.Parallel()
		s := newStrained(t)
		reader := s.account(t, "reader", models.TierEnterprise)
		key := s.key(t, reader, access.RoleClient)
		s.fill(t, key, 3000)
		alone := func(n int) bool { return n < 100 }
		quiet := s.submitsWhile(t, alone)

		var mu sync.Mutex
		codes := map[string]int{}
		var reads sync.WaitGroup
		for range 150 {
			reads.Go(func() {
				code, retryAfter := s.readMuch(t, key)
				mu.Lock()
				defer mu.Unlock()
				codes[code]++
				if code == string(client.CodeRateLimited) && retryAfter < 1 {
					t.Errorf("a refusal says to try again in %v s", retryAfter)
				}
			})
		}
		ended := make(chan struct{})
		go func() { reads.Wait(); close(ended) }()
		loaded := s.submitsWhile(t, func(n int) bool {
			select {
			case <-ended:
				return n < 20
			default:
				return true
			}
		})

		quiet = max(quiet, s.submitsWhile(t, alone)) // another program may use the machine by now

		// On a machine that others use, too, a read may end at the limit of its statements.
		require.Equal(t, 150, codes[""]+codes[string(client.CodeRateLimited)]+codes[string(client.CodeUnavailable)], "%v", codes)
		require.Positive(t, codes[""], "some are answered")
		require.Positive(t, codes[string(client.CodeRateLimited)], "the others are too much at once")
		t.Logf("%v; p99 of submits: %s with nothing else, %s beside the reads", codes, quiet, loaded)
		require.Less(t, loaded, 25*max(quiet, 4*time.Millisecond))
	})

	t.Run("OnTheDiskDoesNotDelayLeases", func(t *testing.T) {
		t.Parallel()
		s := newStrained(t)
		lease := s.lease(t)
		// As on a slow disk, each commit takes time and holds its locks.
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
				// A caller that waits too long for its account's row gets an error.
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
			broken, err := models.FindViolations(t.Context(), s.db, which, doctor.Examination(), 20)
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
		again.SecretsFile = filepath.Join(t.TempDir(), "other.json")
		_, err := seal.LoadOrCreate(again.SecretsFile)
		require.NoError(t, err)

		_, err = openStack(t.Context(), again, "http://127.0.0.1:1")

		require.ErrorContains(t, err, "use the secrets file it was sealed with")
	})
}

func TestOpenAPI(t *testing.T) {
	t.Parallel()

	t.Run("IsNotReadyUntilPostgreSQLIsReachable", func(t *testing.T) {
		t.Parallel()
		s := newStrained(t)
		late := s.cfg
		dsn, proxy := modelstest.Proxied(t)
		late.DatabaseURL = dsn
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

	t.Run("WaitsUntilItIsReachable", func(t *testing.T) {
		t.Parallel()
		dsn, proxy := modelstest.Proxied(t)
		proxy.Cut()
		opened := make(chan error, 1)
		go func() {
			_, closeDB, err := awaitDatabase(t.Context(), func() string { return dsn }, 1, 0, nil)
			if err == nil {
				closeDB()
			}
			opened <- err
		}()
		testrun.Eventually(t, "it has tried to connect", func() bool { return proxy.Refused() >= 3 })

		proxy.Heal()

		require.NoError(t, <-opened)
	})

	t.Run("StopsWhenCancelled", func(t *testing.T) {
		t.Parallel()
		dsn, proxy := modelstest.Proxied(t)
		proxy.Cut()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(0, cancel)

		_, _, err := awaitDatabase(ctx, func() string { return dsn }, 1, 0, nil)

		require.ErrorIs(t, err, context.Canceled)
	})

	t.Run("FailsAtOnceForInvalidSettings", func(t *testing.T) {
		t.Parallel()
		dsn, err := url.Parse(modelstest.DSN(t))
		require.NoError(t, err)
		dsn.Path = "/nowhere"

		_, _, err = awaitDatabase(t.Context(), dsn.String, 1, 0, nil)

		require.ErrorContains(t, err, `database "nowhere" does not exist`)
	})
}
