package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/internal/faultproxy"
	"github.com/reelay/reelay/internal/localstack"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/auth"
	"github.com/reelay/reelay/jobs/seal"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// TestCutOffAPI cuts one of two api processes off from its stores, while all agents have
// their connections to that one. They must reach the other one before they lose a lease.
func TestCutOffAPI(t *testing.T) {
	t.Parallel()

	t.Run("LosesItsAgentsIfItsCallsHang", func(t *testing.T) {
		t.Parallel()
		cutOff(t, (*faultproxy.Proxy).Hang)
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
		s.agent(t, fmt.Sprintf("agent-%d", n))
	}
	c, err := client.New("http://"+well.address, s.key(t, models.RoleOperator))
	require.NoError(t, err)
	testrun.Eventually(t, "all agents wait for jobs", func() bool {
		workers, err := c.Workers(t.Context(), client.WorkerFilter{Status: []client.WorkerStatus{client.WorkerStatusIdle}}, 10, "")
		require.NoError(t, err)
		return len(workers.Edges) == 4
	})
	var all []string
	for n := range 4 {
		params := json.RawMessage(`{"steps": 50, "stepMillis": 1000}`)
		done, err := c.SubmitJob(t.Context(), client.SubmitJobInput{Model: "drill", Prompt: new(fmt.Sprint("job ", n)), Params: &params})
		require.NoError(t, err)
		all = append(all, done.Job.Id)
	}
	for _, id := range all {
		until(t, c, id, beyond(2, 1))
	}

	cut := time.Now()
	fault(sick.postgres)
	fault(sick.redis)
	s.balancer.lead(sick.address, well.address)

	for _, id := range all {
		done := until(t, c, id, completed)
		require.Equal(t, 1, done.AttemptNo)
		row, err := models.GetJob(t.Context(), s.db, models.JobID(id))
		require.NoError(t, err)
		require.Zero(t, row.Crashes)
	}
	require.Greater(t, time.Since(cut), jobs.LeaseTTL, "an agent that stayed would have lost its lease")
}

// servers is Reelay as processes that are started one by one, with a control process and
// a balancer from the start.
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
	s := &servers{balancer: newBalancer(t), dir: dataDir(t), dsn: modelstest.DSN(t)}
	db, closeDB, err := models.Open(t.Context(), s.dsn, 4)
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

// key makes a key of a role.
func (s *servers) key(t *testing.T, role models.Role) string {
	t.Helper()
	_, key, err := (&auth.Keys{DB: s.db}).Create(t.Context(), jobs.Host, auth.NewKey{AccountID: s.account, Role: role, Name: "test"})
	require.NoError(t, err)
	return key
}

func (s *servers) environment(database, redis string) []string {
	return append(os.Environ(), "DATABASE_URL="+database, "REDIS_URL="+redis, "GCS_BUCKET="+s.objects.Bucket(),
		"STORAGE_EMULATOR_HOST="+s.objects.Host(), "REELAY_SECRETS_FILE="+s.secrets(), "REELAY_PUBLIC_URL=http://"+s.balancer.Addr().String())
}

// api is an api process with ways of its own to PostgreSQL and Redis.
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

// agent starts an agent that reaches the api processes through the balancer.
func (s *servers) agent(t *testing.T, instance string) {
	t.Helper()
	env := append(os.Environ(), "REELAY_API_KEY="+s.key(t, models.RoleWorker), "REELAY_ENDPOINT=http://"+s.balancer.Addr().String(),
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

// balancer leads each new connection to the next of its targets, and leaves those alone
// that there are.
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

// lead is where connections lead from now on.
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
