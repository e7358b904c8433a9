package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/features/region"
	"github.com/reelay/reelay/internal/localstack"
	"github.com/reelay/reelay/internal/seal"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	regionrows "github.com/reelay/reelay/models/regions"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// regions are two installations with one store of objects, of which the second has a streaming standby of the first's PostgreSQL.
type regions struct {
	dir     string
	objects *localstack.Objects
	// public is the name by which clients and workers call: it leads to one of the two.
	public *balancer
	// each is a region by its name.
	each map[string]*regionStack
}

type regionStack struct {
	name, peer, address string
	postgres            *localstack.Postgres
	redis               *localstack.Redis
	processes           []*localstack.Child
}

// standby makes a standby of a primary, and starts it.
func standby(t *testing.T, primary *localstack.Postgres, dir string) *localstack.Postgres {
	t.Helper()
	db, done, err := postgres.Open(t.Context(), primary.DSN(), 1)
	require.NoError(t, err)
	defer done()
	var programs, data string
	require.NoError(t, db.NewRaw("SELECT setting FROM pg_config WHERE name = 'BINDIR'").Scan(t.Context(), &programs))
	require.NoError(t, db.NewRaw("SHOW data_directory").Scan(t.Context(), &data))
	require.NoError(t, os.MkdirAll(dir, 0o700))
	said, err := exec.CommandContext(t.Context(), filepath.Join(programs, "pg_basebackup"), "-d", primary.DSN(), "-D", filepath.Join(dir, "data"),
		"-R", "-X", "stream", "-c", "fast").CombinedOutput()
	require.NoError(t, err, string(said))
	info, err := os.Stat(data)
	require.NoError(t, err)
	owner := info.Sys().(*syscall.Stat_t)
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chown(path, int(owner.Uid), int(owner.Gid))
	}))
	server, err := localstack.StartPostgres(t.Context(), localstack.PostgresConfig{Dir: dir, Test: true, Settings: replicated})
	require.NoError(t, err)
	t.Cleanup(func() { server.Stop(context.Background()) })
	return server
}

// replicated are the settings of servers that can be followed.
var replicated = []string{"synchronous_commit=on", "wal_level=replica", "max_wal_senders=4", "hot_standby=on", "max_connections=100"}

func newRegions(t *testing.T) *regions {
	t.Helper()
	r := &regions{dir: dataDir(t), public: newBalancer(t), each: map[string]*regionStack{}}
	_, err := seal.LoadOrCreate(filepath.Join(r.dir, "secrets.json"))
	require.NoError(t, err)
	r.objects, err = localstack.StartObjects(localstack.ObjectsConfig{Dir: filepath.Join(r.dir, "objects"), Bucket: "reelay"})
	require.NoError(t, err)
	t.Cleanup(func() { r.objects.Stop(context.Background()) })
	for name, peer := range map[string]string{"eu": "us", "us": "eu"} {
		redis, err := localstack.StartRedis(t.Context(), localstack.RedisConfig{Test: true})
		require.NoError(t, err)
		t.Cleanup(func() { redis.Stop(context.Background()) })
		r.each[name] = &regionStack{name: name, peer: peer, address: "127.0.0.1:" + testrun.FreePort(t), redis: redis}
	}
	eu, us := r.each["eu"], r.each["us"]
	eu.postgres, err = localstack.StartPostgres(t.Context(), localstack.PostgresConfig{Test: true, Settings: replicated})
	require.NoError(t, err)
	t.Cleanup(func() { eu.postgres.Stop(context.Background()) })
	r.command(t, eu, "migrate")
	us.postgres = standby(t, eu.postgres, filepath.Join(r.dir, "standby"))
	// A commit waits for the other region: what was acknowledged is there.
	db := r.database(t, eu)
	_, err = db.ExecContext(t.Context(), "ALTER SYSTEM SET synchronous_standby_names = '*'")
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), "SELECT pg_reload_conf()")
	require.NoError(t, err)
	testrun.Eventually(t, "commits wait for the standby", func() bool {
		var waits bool
		err := db.NewRaw("SELECT coalesce(bool_or(sync_state = 'sync'), false) FROM pg_stat_replication").Scan(t.Context(), &waits)
		return err == nil && waits
	})
	return r
}

func (r *regions) environment(s *regionStack) []string {
	return append(os.Environ(), "DATABASE_URL="+s.postgres.DSN(), "REDIS_URL="+s.redis.URL(), "GCS_BUCKET="+r.objects.Bucket(),
		"STORAGE_EMULATOR_HOST="+r.objects.Host(), "REELAY_SECRETS_FILE="+filepath.Join(r.dir, "secrets.json"),
		"REELAY_PUBLIC_URL=http://"+r.public.Addr().String(), "REELAY_LISTEN="+s.address, "REELAY_REGION="+s.name,
		"REELAY_REGION_PEERS=http://"+r.each[s.peer].address)
}

// command runs a command with the settings of a region, and returns its output.
func (r *regions) command(t *testing.T, s *regionStack, args ...string) string {
	t.Helper()
	out, errs, err := r.try(t, s, args...)
	require.NoError(t, err, errs)
	return out
}

// refused runs a command that fails, and requires words of its error.
func (r *regions) refused(t *testing.T, s *regionStack, words string, args ...string) {
	t.Helper()
	_, errs, err := r.try(t, s, args...)
	require.Error(t, err)
	require.Contains(t, errs, words)
}

func (r *regions) try(t *testing.T, s *regionStack, args ...string) (out, errs string, err error) {
	t.Helper()
	cmd := testrun.Command(t, reelay, args...)
	cmd.Env = r.environment(s)
	var said strings.Builder
	cmd.Stderr = &said
	text, err := cmd.Output()
	return string(text), said.String(), err
}

func (r *regions) database(t *testing.T, s *regionStack) *bun.DB {
	t.Helper()
	db, done, err := postgres.Open(t.Context(), s.postgres.DSN(), 2)
	require.NoError(t, err)
	t.Cleanup(done)
	return db
}

// start starts an api and a control process of a region.
func (r *regions) start(t *testing.T, s *regionStack) {
	t.Helper()
	r.startOne(t, s, "api")
	r.startOne(t, s, "control")
}

// startOne starts one process of a region.
func (r *regions) startOne(t *testing.T, s *regionStack, command string) {
	t.Helper()
	log := filepath.Join(r.dir, fmt.Sprintf("%s-%s-%d.log", s.name, command, len(s.processes)))
	child, err := localstack.StartChild(localstack.ChildConfig{
		Name: command, Path: reelay, Args: []string{command}, Env: r.environment(s), Log: log, Grace: time.Minute,
	})
	require.NoError(t, err)
	s.processes = append(s.processes, child)
	t.Cleanup(func() {
		child.Stop(context.Background())
		if text, _ := os.ReadFile(log); t.Failed() {
			t.Logf("%s:\n%s", filepath.Base(log), text)
		}
	})
}

// kill ends all of a region at once.
func (r *regions) kill(s *regionStack) {
	for _, child := range s.processes {
		child.Kill()
	}
	s.processes = nil
	s.postgres.Kill()
}

// readiness returns the status and the text of /readyz.
func (s *regionStack) readiness(t *testing.T) (int, string) {
	t.Helper()
	res, err := http.Get("http://" + s.address + "/readyz")
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(text)
}

func (s *regionStack) awaitReady(t *testing.T) {
	t.Helper()
	testrun.Eventually(t, "the api of "+s.name+" is ready", func() bool { status, _ := s.readiness(t); return status == http.StatusOK })
}

// awaitWords waits until /readyz is 503 with words.
func (s *regionStack) awaitWords(t *testing.T, words string) {
	t.Helper()
	testrun.Eventually(t, "the api of "+s.name+" says: "+words, func() bool {
		status, text := s.readiness(t)
		return status == http.StatusServiceUnavailable && strings.Contains(text, words)
	})
}

// TestRegions kills a whole region under load, promotes the other, and lets the first come back.
func TestRegions(t *testing.T) {
	t.Parallel()

	r := newRegions(t)
	eu, us := r.each["eu"], r.each["us"]
	r.start(t, eu)
	eu.awaitReady(t)
	r.start(t, us)
	us.awaitWords(t, "This region is a standby of eu.")
	res, err := http.Get("http://" + us.address + "/api/v1/jobs")
	require.NoError(t, err)
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	res.Body.Close()
	require.Contains(t, string(text), "Try again in 2 s.")
	require.NotContains(t, string(text), "standby", "it is for operators")
	r.public.lead(eu.address)

	var bootstrap struct{ Secret string }
	require.NoError(t, json.Unmarshal([]byte(r.command(t, eu, "keys", "bootstrap", "--json")), &bootstrap))
	c, err := client.New("http://"+r.public.Addr().String(), bootstrap.Secret)
	require.NoError(t, err)
	short := json.RawMessage(`{"steps": 1, "stepMillis": 10}`)
	of := json.RawMessage(`{"of": "slot"}`)
	schedule, err := c.ApplySchedule(t.Context(), client.ScheduleInput{Name: "each second", EverySeconds: new(1), CatchUp: new(client.CatchUpAll),
		Job: &client.SubmitJobInput{Model: "drill", Prompt: new("one of each second"), Params: &short, Metadata: &of}})
	require.NoError(t, err)
	key := strings.TrimSpace(r.command(t, eu, "keys", "create", "--endpoint", "http://"+r.public.Addr().String(), "--key", bootstrap.Secret, "--account", "house",
		"--role", "worker", "--name", "test", "--jq", ".secret"))
	log := filepath.Join(r.dir, "agent.log")
	agent, err := localstack.StartChild(localstack.ChildConfig{
		Name: "agent", Path: reelay, Log: log, Env: append(os.Environ(), "REELAY_API_KEY="+key),
		Args: []string{"agent", "--endpoint", "http://" + r.public.Addr().String(), "--work-dir", t.TempDir(), "--runtime", "drill=" + reelay + " runtime drill"},
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		agent.Stop(context.Background())
		if text, _ := os.ReadFile(log); t.Failed() {
			t.Logf("the agent:\n%s", text)
		}
	})

	said := r.command(t, us, "region")
	require.Contains(t, said, "is a standby, and receives from the primary")
	require.Contains(t, said, "eu, serves (epoch 1)")
	require.Contains(t, said, "not now: the primary's PostgreSQL still sends")
	require.Contains(t, r.command(t, us, "doctor", "--verbose"), "This region, us, is a standby of eu.")
	r.refused(t, us, "region eu serves: stop its api and control processes", "region", "promote", "--yes")
	var primary region.Report
	require.NoError(t, json.Unmarshal([]byte(r.command(t, eu, "region", "--json")), &primary))
	require.True(t, primary.Serves)
	require.Equal(t, "*", primary.CommitsWaitFor)
	require.Equal(t, "sync", primary.Standbys[0].State)
	require.NotNil(t, primary.Standbys[0].BehindBytes)
	require.Equal(t, "WAITS", primary.Peers[0].State())

	// Clients submit all the time, and note what was acknowledged.
	load, stop := context.WithCancel(t.Context())
	var acknowledged sync.Map
	var clients sync.WaitGroup
	count := func() (n int) {
		acknowledged.Range(func(any, any) bool { n++; return true })
		return n
	}
	for i := range 4 {
		clients.Go(func() {
			for n := 0; load.Err() == nil; n++ {
				key := fmt.Sprintf("%d-%d", i, n)
				done, err := c.SubmitJob(load, client.SubmitJobInput{Model: "drill", IdempotencyKey: &key, Prompt: new("a job"), Params: &short})
				if err == nil {
					acknowledged.Store(key, done.Job.Id)
				}
			}
		})
	}
	rows := r.database(t, eu)
	testrun.Eventually(t, "jobs are accepted and rendered", func() bool {
		var completed int
		err := rows.NewRaw("SELECT count(*) FROM jobs WHERE status = 'COMPLETED'").Scan(t.Context(), &completed)
		return err == nil && completed > 0 && count() >= 200
	})

	r.kill(eu)
	var waits region.Report
	testrun.Eventually(t, "the standby receives nothing", func() bool {
		waits = region.Report{}
		require.NoError(t, json.Unmarshal([]byte(r.command(t, us, "region", "--json")), &waits))
		return !waits.Receiving
	})
	require.Empty(t, waits.Hindrances)
	require.Contains(t, waits.Warnings[0].Problem, "receives nothing from eu")
	require.NotNil(t, waits.PrimaryHeardAt)
	require.WithinDuration(t, *waits.NewestTransaction, *waits.PrimaryHeardAt, 10*time.Second)
	require.Contains(t, r.command(t, us, "region"), "possible: run `reelay region promote`")
	begun := time.Now()
	said, errs, err := r.try(t, us, "region", "promote", "--yes")
	require.NoError(t, err, errs)
	require.Contains(t, said, "Region us is the primary (epoch 2)")
	require.Contains(t, errs, "The primary was last heard at ")
	require.Contains(t, errs, ": It does not answer (connection refused): whether it serves is unknown.")
	require.Contains(t, r.command(t, us, "region"), "; the newest transaction that came over is of ")
	r.public.lead(us.address)
	us.awaitReady(t)
	db, leased := r.database(t, us), time.Time{}
	testrun.Eventually(t, "a worker gets a job in the other region", func() bool {
		err := db.NewRaw("SELECT max(leased_at) FROM job_attempts").Scan(t.Context(), &leased)
		return err == nil && leased.After(begun)
	})
	t.Logf("from the command to the first lease: %s", leased.Sub(begun).Round(time.Millisecond))
	require.Less(t, leased.Sub(begun), time.Minute)
	after := count()
	testrun.Eventually(t, "jobs are accepted in the other region", func() bool { return count() >= after+20 })
	stop()
	clients.Wait()

	acknowledged.Range(func(key, id any) bool {
		done, err := c.SubmitJob(t.Context(), client.SubmitJobInput{Model: "drill", IdempotencyKey: new(key.(string)), Prompt: new("a job"), Params: &short})
		require.NoError(t, err)
		require.Equal(t, id, done.Job.Id, "what was acknowledged before is there after")
		return true
	})
	_, err = c.PauseSchedule(t.Context(), schedule.Id, "the test ends")
	require.NoError(t, err)
	var slots struct{ Fired, Seconds, Jobs int }
	testrun.Eventually(t, "all slots have fired", func() bool {
		err := db.NewRaw(`
			SELECT count(*) FILTER (WHERE s.state = 'FIRED') AS fired, extract(epoch FROM max(s.slot) - min(s.slot))::int + 1 AS seconds,
				(SELECT count(*) FROM jobs WHERE metadata->>'of' = 'slot') AS jobs FROM schedule_slots s`).Scan(t.Context(), &slots)
		return err == nil && slots.Fired == slots.Seconds
	})
	require.Equal(t, slots.Fired, slots.Jobs, "no slot fired twice")

	// The old primary comes back.
	_, err = eu.postgres.Restart(t.Context())
	require.NoError(t, err)
	r.start(t, eu)
	eu.awaitWords(t, "Region us is the primary: it was promoted (epoch 2)")
	report := func() (report region.Report, raw string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+us.address+"/api/v1/region", nil)
		require.NoError(t, err)
		request.Header.Set("Authorization", "Bearer "+bootstrap.Secret)
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &report), string(text))
		return report, string(text)
	}
	testrun.Eventually(t, "the primary shows that the old one is no standby yet", func() bool {
		seen, _ := report()
		return seen.Peers[0].Trouble == "overtaken"
	})
	seen, raw := report()
	require.Equal(t, int64(2), seen.Promotions[0].Epoch)
	require.Equal(t, "eu", seen.Promotions[0].From)
	require.Contains(t, seen.Promotions[0].By, "@", raw)
	require.Contains(t, seen.Peers[0].Problem, "what it accepted since is in its database only")
	res, err = http.Post("http://"+eu.address+"/api/v1/jobs", "application/json", strings.NewReader("{}"))
	require.NoError(t, err)
	res.Body.Close()
	require.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
	r.refused(t, eu, "it is too old to take over", "region", "promote", "--yes")
	r.refused(t, us, "region us is the primary already", "region", "promote", "--yes")
	require.Regexp(t, `(?m)^ok +region-primary`, r.command(t, us, "doctor", "--verbose"))

	// Processes that learn of a later promotion end.
	made, err := regionrows.Promote(t.Context(), db, 2, "eu", regionrows.Takeover{})
	require.NoError(t, err)
	require.True(t, made)
	for _, child := range us.processes {
		testrun.Receive(t, "the process ends", child.Done())
	}
}

// TestRepeatedRequestsAwaitTheStandby cuts off requests whose commits wait for a standby that is away. Their rows are then on the
// primary alone: a repeated request must not be answered from them before the standby has them.
func TestRepeatedRequestsAwaitTheStandby(t *testing.T) {
	t.Parallel()

	r := newRegions(t)
	eu, us := r.each["eu"], r.each["us"]
	r.startOne(t, eu, "api")
	eu.awaitReady(t)
	r.public.lead(eu.address)
	var bootstrap struct{ Secret string }
	require.NoError(t, json.Unmarshal([]byte(r.command(t, eu, "keys", "bootstrap", "--json")), &bootstrap))
	c, err := client.New("http://"+eu.address, bootstrap.Secret)
	require.NoError(t, err)
	old, err := c.SubmitJob(t.Context(), client.SubmitJobInput{Model: "drill", Prompt: new("a job")})
	require.NoError(t, err)

	// Each has a key, and its row can be counted.
	requests := []struct{ name, path, body, rows string }{
		{"a job", "/graphql", `mutation { submitJob(input: {model: "drill", prompt: "x", idempotencyKey: "one"}) { job { id } } }`,
			"SELECT count(*) FROM jobs WHERE idempotency_key = 'one'"},
		{"jobs", "/graphql", `mutation { submitJobs(inputs: [{model: "drill", prompt: "x", idempotencyKey: "many"}]) { results { job { id } } } }`,
			"SELECT count(*) FROM jobs WHERE idempotency_key = 'many'"},
		{"a job that must be read first", "/graphql", fmt.Sprintf(
			`mutation { submitJob(input: {model: "drill", prompt: "x", idempotencyKey: "late", expiresAt: %q}) { job { id } } }`,
			time.Now().Add(time.Hour).Format(time.RFC3339)),
			"SELECT count(*) FROM jobs WHERE idempotency_key = 'late'"},
		{"a workflow", "/graphql",
			`mutation { submitWorkflow(input: {name: "w", idempotencyKey: "w", jobs: [{key: "a", job: {model: "drill", prompt: "x"}}]}) { id } }`,
			"SELECT count(*) FROM workflows WHERE idempotency_key = 'w'"},
		{"a bulk operation", "/graphql", fmt.Sprintf(
			`mutation { startBulkOperation(action: CANCEL, ids: [%q], idempotencyKey: "b") { id } }`, old.Job.Id),
			"SELECT count(*) FROM bulk_operations WHERE request_key = 'b'"},
		{"a schedule", "/api/v1/schedules",
			`{"name": "s", "idempotency_key": "s", "model": "drill", "every_seconds": 86400, "payload": {"prompt": "x"}}`,
			"SELECT count(*) FROM schedules WHERE idempotency_key = 's'"},
	}
	ask := func(i int) (answer string, ok bool) {
		body := requests[i].body
		if requests[i].path == "/graphql" {
			document, _ := json.Marshal(map[string]string{"query": body})
			body = string(document)
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+eu.address+requests[i].path, strings.NewReader(body))
		if err != nil {
			return err.Error(), false
		}
		request.Header.Set("Authorization", "Bearer "+bootstrap.Secret)
		request.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err.Error(), false
		}
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		return response.Status + " " + string(text), response.StatusCode < 300 && !strings.Contains(string(text), `"errors"`)
	}
	rows := r.database(t, eu)
	// cut makes a request and ends its waits, as when its caller, and so the server, gives up: PostgreSQL ends the wait, not the
	// transaction. One at a time, since they wait for the same rows.
	cut := func(i int) (answer string, ok bool) {
		done := make(chan struct{})
		go func() { defer close(done); answer, ok = ask(i) }()
		testrun.Eventually(t, requests[i].name+" ends", func() bool {
			_, err := rows.NewRaw("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'").Exec(t.Context())
			require.NoError(t, err)
			select {
			case <-done:
				return true
			default:
				return false
			}
		})
		return answer, ok
	}
	count := func(db *bun.DB, i int) (n int) {
		require.NoError(t, db.NewRaw(requests[i].rows).Scan(t.Context(), &n))
		return n
	}

	us.postgres.Kill()
	testrun.Eventually(t, "the doctor ends, and says that nothing can be written", func() bool {
		out, _, err := r.try(t, eu, "doctor")
		return err != nil && strings.Contains(out, "Commits wait for any standby, and none follows: no write succeeds.")
	})
	require.Contains(t, r.command(t, eu, "region"), "ALTER SYSTEM RESET synchronous_standby_names; SELECT pg_reload_conf();")
	for i, request := range requests {
		testrun.Eventually(t, request.name+" is on the primary", func() bool { // a connection can have been cut off before
			answer, ok := cut(i)
			require.False(t, ok, "%s was answered: %s", request.name, answer)
			return count(rows, i) == 1
		})
		answer, ok := cut(i)
		require.False(t, ok, "%s was answered although only the primary has it: %s", request.name, answer)
	}
	_, err = models.AwaitJob(t.Context(), rows, models.JobID(old.Job.Id))
	require.True(t, postgres.IsOutage(err), "what repeats the end of an attempt waits, too: %v", err)

	_, err = us.postgres.Restart(t.Context())
	require.NoError(t, err)
	testrun.Eventually(t, "the standby is back", func() bool { return postgres.AwaitStandby(t.Context(), rows) == nil })
	copied := r.database(t, us)
	for i, request := range requests {
		// It fails until the api has replaced the connections that were cut off.
		testrun.Eventually(t, request.name+" is answered", func() bool { _, ok := ask(i); return ok })
		// The standby has it, and may still replay it.
		testrun.Eventually(t, request.name+", which was answered, is on the standby", func() bool { return count(copied, i) == 1 })
	}

	// A name that no standby has stops all writes, too.
	_, err = rows.ExecContext(t.Context(), "ALTER SYSTEM SET synchronous_standby_names = 'us'")
	require.NoError(t, err)
	_, err = rows.ExecContext(t.Context(), "SELECT pg_reload_conf()")
	require.NoError(t, err)
	testrun.Eventually(t, "the doctor says which name the standby has", func() bool {
		out, _, err := r.try(t, eu, "doctor")
		return err != nil && strings.Contains(out, "Commits wait for us, and no standby of that name follows (walreceiver does): no write succeeds.")
	})
}
