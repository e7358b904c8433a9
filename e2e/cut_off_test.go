package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/internal/faultproxy"
	"github.com/reelay/reelay/internal/localstack"
	"github.com/reelay/reelay/internal/seal"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/reelay/reelay/models/postgres"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// TestCutOffAPI cuts one of two api processes off from its stores while all agents are
// connected to it. They must reach the other process before they lose a lease.
func TestCutOffAPI(t *testing.T) {
	t.Parallel()

	t.Run("LosesItsAgentsIfItsCallsHang", func(t *testing.T) {
		t.Parallel()
		cutOff(t, (*faultproxy.Proxy).Hang)
	})

	t.Run("ChargesNoJobForALeaseThatItsAgentCouldNotRenew", func(t *testing.T) {
		t.Parallel()

		s := newServers(t)
		sick, well := s.api(t), s.api(t)
		c, err := client.New("http://"+well.address, s.key(t, access.RoleOperator))
		require.NoError(t, err)
		s.agent(t, "agent-0", sick.address)
		id := drill(t, c, 20)
		until(t, c, id, beyond(2, 1))
		s.agent(t, "agent-1", well.address)
		waiting(t, c, 1)

		sick.postgres.Hang()
		sick.redis.Hang()

		done := until(t, c, id, completed)
		require.Equal(t, 2, done.AttemptNo, "the other agent took it over")
		attempts, err := models.ListAttempts(t.Context(), s.db, []models.JobID{models.JobID(id)})
		require.NoError(t, err)
		require.Equal(t, models.AttemptLost, attempts[0].Status)
		row, err := models.GetJob(t.Context(), s.db, models.JobID(id))
		require.NoError(t, err)
		require.Zero(t, row.Crashes)
		sick.postgres.Heal() // so that its processes end at once
		sick.redis.Heal()
	})

	if testrun.Nightly() {
		t.Run("LosesItsAgentsIfItAnswersUnavailableAtOnce", func(t *testing.T) {
			t.Parallel()
			cutOff(t, (*faultproxy.Proxy).Cut)
		})
	}
}

func cutOff(t *testing.T, fault func(*faultproxy.Proxy)) {
	s := newServers(t)
	sick, well := s.api(t), s.api(t)
	s.balancer.lead(sick.address)
	for n := range 4 {
		s.agent(t, fmt.Sprintf("agent-%d", n), s.balancer.Addr().String())
	}
	c, err := client.New("http://"+well.address, s.key(t, access.RoleOperator))
	require.NoError(t, err)
	waiting(t, c, 4)
	var all []string
	for range 4 {
		all = append(all, drill(t, c, 50))
	}
	for _, id := range all {
		until(t, c, id, beyond(2, 1))
	}

	cut := time.Now()
	fault(sick.postgres)
	fault(sick.redis)
	s.balancer.lead(sick.address, well.address)
	testrun.Eventually(t, "it refuses, and closes the connection", func() bool { return sick.turnsAway(t, s.key(t, access.RoleClient)) })

	for _, id := range all {
		done := until(t, c, id, completed)
		require.Equal(t, 1, done.AttemptNo)
		row, err := models.GetJob(t.Context(), s.db, models.JobID(id))
		require.NoError(t, err)
		require.Zero(t, row.Crashes)
	}
	require.Greater(t, time.Since(cut), lease.LeaseTTL, "an agent that stayed would have lost its lease")
}

// waiting waits until n agents are waiting for jobs.
func waiting(t *testing.T, c *client.Client, n int) {
	t.Helper()
	testrun.Eventually(t, "the agents wait for jobs", func() bool {
		workers, err := c.Workers(t.Context(), client.WorkerFilter{Status: []client.WorkerStatus{client.WorkerStatusIdle}}, 10, "")
		require.NoError(t, err)
		return len(workers.Edges) == n
	})
}

// drill submits a job that takes this many seconds.
func drill(t *testing.T, c *client.Client, seconds int) (id string) {
	t.Helper()
	params := json.RawMessage(fmt.Sprintf(`{"steps": %d, "stepMillis": 1000}`, seconds))
	done, err := c.SubmitJob(t.Context(), client.SubmitJobInput{Model: "drill", Prompt: new("a job"), Params: &params})
	require.NoError(t, err)
	return done.Job.Id
}

// servers are processes of Reelay that a test starts one by one. The control process and the
// balancer run from the start.
type servers struct {
	balancer *balancer
	db       *bun.DB
	account  models.AccountID
	dir, dsn string
	redis    *localstack.Redis
	objects  *localstack.Objects
}

func newServers(t *testing.T) *servers {
	t.Helper()
	return newServersOver(t, modelstest.DSN(t))
}

func newServersOver(t *testing.T, dsn string) *servers {
	t.Helper()
	s := &servers{balancer: newBalancer(t), dir: dataDir(t), dsn: dsn}
	db, closeDB, err := postgres.Open(t.Context(), s.dsn, 4)
	require.NoError(t, err)
	t.Cleanup(closeDB)
	s.db = db
	account := jobs.NewAccount("studio", models.TierEnterprise)
	require.NoError(t, models.InsertAccount(t.Context(), db, account))
	s.account = account.ID
	_, err = seal.LoadOrCreate(s.secrets())
	require.NoError(t, err)
	s.redis, err = localstack.StartRedis(t.Context(), localstack.RedisConfig{Test: true})
	require.NoError(t, err)
	t.Cleanup(func() { s.redis.Stop(context.Background()) })
	s.objects, err = localstack.StartObjects(localstack.ObjectsConfig{Dir: filepath.Join(s.dir, "objects"), Bucket: "reelay"})
	require.NoError(t, err)
	t.Cleanup(func() { s.objects.Stop(context.Background()) })
	s.run(t, "control", s.environment(s.dsn, s.redis.URL()))
	return s
}

func (s *servers) secrets() string { return filepath.Join(s.dir, "secrets.json") }

// key creates a key with a role.
func (s *servers) key(t *testing.T, role access.Role) string {
	t.Helper()
	_, key, err := (&auth.Keys{DB: s.db}).Create(t.Context(), jobs.Host, auth.NewKey{AccountID: s.account, Role: role, Name: "test"})
	require.NoError(t, err)
	return key
}

func (s *servers) environment(database, redis string) []string {
	return append(os.Environ(), "DATABASE_URL="+database, "REDIS_URL="+redis, "GCS_BUCKET="+s.objects.Bucket(),
		"STORAGE_EMULATOR_HOST="+s.objects.Host(), "REELAY_SECRETS_FILE="+s.secrets(), "REELAY_PUBLIC_URL=http://"+s.balancer.Addr().String())
}

// api is an api process with its own proxies to PostgreSQL and Redis.
type api struct {
	address         string
	postgres, redis *faultproxy.Proxy
}

func (s *servers) api(t *testing.T) *api {
	t.Helper()
	database, postgres := modelstest.Through(t, s.dsn)
	address, err := url.Parse(s.redis.URL())
	require.NoError(t, err)
	redis := faultproxy.New(t, "tcp", address.Host)
	address.Host = redis.Addr()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	socket, err := listener.(*net.TCPListener).File()
	require.NoError(t, err)
	defer socket.Close()
	s.run(t, "api", append(s.environment(database, address.String()), "REELAY_LISTEN=fd:3"), socket)
	return &api{listener.Addr().String(), postgres, redis}
}

// turnsAway reports whether the process refuses a call with 503 and closes the connection, so
// that the client's next call reaches another process.
func (a *api) turnsAway(t *testing.T, key string) bool {
	t.Helper()
	body := strings.NewReader(`{"query": "{ viewer { role } }"}`)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+a.address+"/graphql", body)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	return res.StatusCode == http.StatusServiceUnavailable && res.Close
}

// agent starts an agent that reaches the API at an address.
func (s *servers) agent(t *testing.T, instance, address string) {
	t.Helper()
	env := append(os.Environ(), "REELAY_API_KEY="+s.key(t, access.RoleWorker), "REELAY_ENDPOINT=http://"+address,
		"REELAY_AGENT_INSTANCE_ID="+instance, "REELAY_AGENT_WORK_DIR="+filepath.Join(s.dir, "work"),
		"REELAY_AGENT_RUNTIME=drill="+reelay+" runtime drill")
	s.run(t, "agent", env)
}

// run runs a command of reelay until the test ends. If the test fails, it shows what the
// command printed.
func (s *servers) run(t *testing.T, command string, env []string, files ...*os.File) {
	t.Helper()
	output, err := os.CreateTemp(s.dir, command+"-*.log")
	require.NoError(t, err)
	child, err := localstack.StartChild(localstack.ChildConfig{
		Name: command, Path: reelay, Args: []string{command}, Env: env, Log: output.Name(), Files: files, Grace: time.Minute,
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		child.Stop(context.Background())
		if text, _ := io.ReadAll(output); t.Failed() {
			t.Logf("%s:\n%s", filepath.Base(output.Name()), text)
		}
		output.Close()
	})
}

// balancer forwards each new connection to the next of its targets. It does not change
// existing connections.
type balancer struct {
	net.Listener

	mu      sync.Mutex
	targets []string
	next    int
}

func newBalancer(t *testing.T) *balancer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	b := &balancer{Listener: listener}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { b.serve(conn) })
		}
	})
	t.Cleanup(func() { listener.Close(); running.Wait() })
	return b
}

// lead sets the targets of new connections.
func (b *balancer) lead(targets ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.targets, b.next = targets, 0
}

func (b *balancer) target() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next++
	return b.targets[b.next%len(b.targets)]
}

func (b *balancer) serve(from net.Conn) {
	defer from.Close()
	to, err := net.Dial("tcp", b.target())
	if err != nil {
		return
	}
	defer to.Close()
	go func() {
		io.Copy(to, from)
		to.Close()
	}()
	io.Copy(from, to)
}
