package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/internal/localstack"
	"github.com/reelay/reelay/internal/seal"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

const (
	apis        = 3
	controls    = 2
	agentGroups = 8
)

// stack is all processes of Reelay and the ways between them.
type stack struct {
	dir      string
	programs *programs
	network  *network
	store    *store
	db       *bun.DB // the soak's own way to PostgreSQL, past all faults
	closeDB  func()

	postgres, redis *process
	apis, controls  []*process
	apiAddresses    []string

	postgresHost string // behind no fault
	redisPort    int
	password     string
	clientsAt    string   // where clients reach the API
	agentsAt     []string // where each group of agents does
	directAt     string   // past all faults

	tenants   []*tenant
	pipeline  *tenant // submits the workflow, and nothing else
	operator  string
	enrolment string
	requests  *meter // of the requests to all apis
	balancer  *balancer

	stop context.CancelFunc
}

// tenant is an account with a key.
type tenant struct {
	account *models.Account
	key     string
	share   int // of the submits
	// narrow is an account with the default limits of its tier, so that refusals happen. It
	// submits only short jobs, since they queue behind each other.
	narrow bool
}

// startStack starts everything but agents. It must be closed even after an error.
func startStack(ctx context.Context, dir string, programs *programs) (*stack, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &stack{dir: dir, programs: programs, network: newNetwork(), requests: newMeter(), stop: cancel}
	for _, begin := range []func(context.Context) error{
		s.startPostgres, s.startRedis, s.startStore, s.prepare, s.startControls, s.startAPIs,
	} {
		if err := begin(ctx); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (s *stack) startPostgres(ctx context.Context) error {
	var dsn string
	var err error
	s.postgres, err = supervise(ctx, "postgres", func() (child, error) {
		// With full durability: an acknowledged commit must survive a kill.
		p, err := localstack.StartPostgres(ctx, localstack.PostgresConfig{Dir: filepath.Join(s.dir, "postgres")})
		if err != nil {
			return nil, err
		}
		if dsn == "" { // it is the same each time
			dsn = p.DSN()
		}
		return p, nil
	})
	if err != nil {
		return err
	}
	parsed, err := url.Parse(dsn)
	if err != nil {
		return err
	}
	socket := filepath.Join(parsed.Query().Get("host"), ".s.PGSQL.5432")
	proxy, err := s.network.forward(func() (net.Conn, error) { return net.Dial("unix", socket) })
	if err != nil {
		return err
	}
	s.postgresHost = proxy.Addr()
	s.db, s.closeDB, err = postgres.Open(ctx, dsn, 8)
	return err
}

func (s *stack) startRedis(ctx context.Context) error {
	dir := filepath.Join(s.dir, "redis")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	var err error
	if s.redisPort, err = freePort(); err != nil {
		return err
	}
	s.password = newPassword()
	s.redis, err = supervise(ctx, "redis", func() (child, error) { return startRedis(dir, s.redisPort, s.password) })
	return err
}

func (s *stack) startStore(context.Context) (err error) {
	s.store, err = startStore(filepath.Join(s.dir, "objects"))
	return err
}

// prepare creates tenants of every tier. They have high limits, except one account with the
// default limits of its tier, so that refusals happen too.
func (s *stack) prepare(ctx context.Context) error {
	if _, err := seal.LoadOrCreate(s.secrets()); err != nil {
		return err
	}
	if _, err := s.command(ctx, s.programs.first(), "migrate"); err != nil {
		return err
	}
	keys := &auth.Keys{DB: s.db}
	for _, t := range []struct {
		name   string
		tier   models.Tier
		share  int
		narrow bool
	}{
		{"house", models.TierCritical, 2, false},
		{"studio", models.TierEnterprise, 20, false},
		{"agency", models.TierEnterprise, 10, false},
		{"painter", models.TierPro, 15, false},
		{"poet", models.TierPro, 15, false},
		{"student", models.TierFree, 8, false},
		{"visitor", models.TierFree, 2, true},
		{"archive", models.TierBatch, 18, false},
		{"museum", models.TierBatch, 10, false},
		{"pipeline", models.TierEnterprise, 0, false},
	} {
		account := jobs.NewAccount(t.name, t.tier)
		if !t.narrow {
			account.MaxQueued, account.MaxRunning, account.SubmitsPerMinute = 100_000, 1000, 100_000
		}
		if err := models.InsertAccount(ctx, s.db, account); err != nil {
			return err
		}
		role := access.RoleClient
		if t.tier == models.TierCritical {
			role = access.RoleOperator
		}
		_, key, err := keys.Create(ctx, jobs.Host, auth.NewKey{AccountID: account.ID, Role: role, Name: "chaos"})
		if err != nil {
			return err
		}
		s.tenants = append(s.tenants, &tenant{account: account, key: key, share: t.share, narrow: t.narrow})
	}
	var err error
	s.operator, s.pipeline = s.tenants[0].key, s.tenants[len(s.tenants)-1]
	_, s.enrolment, err = keys.Create(ctx, jobs.Host, auth.NewKey{AccountID: s.tenants[0].account.ID, Role: access.RoleWorker, Name: "chaos"})
	return err
}

func (s *stack) secrets() string { return filepath.Join(s.dir, "secrets.json") }

// environment returns the environment of one server, with its own ways to the stores.
func (s *stack) environment(postgres, redis pair, more ...string) ([]string, error) {
	database, err := s.network.open(postgres, s.postgresHost)
	if err != nil {
		return nil, err
	}
	cache, err := s.network.open(redis, net.JoinHostPort("127.0.0.1", strconv.Itoa(s.redisPort)))
	if err != nil {
		return nil, err
	}
	objects, err := s.network.open(apiObjects, s.store.host())
	if err != nil {
		return nil, err
	}
	return append(append(plainEnvironment(),
		"DATABASE_URL=postgres://reelay@"+database+"/reelay?sslmode=disable",
		"REELAY_DATABASE_CONNECTIONS=24",
		"REDIS_URL="+redisURL(cache, s.password),
		"GCS_BUCKET="+bucket, "STORAGE_EMULATOR_HOST="+objects,
		"REELAY_SECRETS_FILE="+s.secrets(), "REELAY_LOG=json",
	), more...), nil
}

// plainEnvironment returns this process's environment without Reelay's settings.
func plainEnvironment() []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "LANG"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return append(env, "GOMAXPROCS=2")
}

func (s *stack) startControls(ctx context.Context) error {
	for i := range controls {
		env, err := s.environment(controlPG, controlRedis, "REELAY_PUBLIC_URL=http://127.0.0.1:9")
		if err != nil {
			return err
		}
		name := fmt.Sprintf("control-%d", i)
		p, err := supervise(ctx, name, func() (child, error) { return s.run(name, "reelay", env, "control") })
		if err != nil {
			return err
		}
		s.controls = append(s.controls, p)
	}
	return nil
}

func (s *stack) startAPIs(ctx context.Context) error {
	for range apis {
		port, err := freePort()
		if err != nil {
			return err
		}
		s.apiAddresses = append(s.apiAddresses, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	}
	balancer, err := s.balance()
	if err != nil {
		return err
	}
	s.directAt = "http://" + balancer
	for i, address := range s.apiAddresses {
		links, err := s.network.open(agentsObjects, balancer)
		if err != nil {
			return err
		}
		env, err := s.environment(apiPostgres, apiRedis, "REELAY_LISTEN="+address, "REELAY_PUBLIC_URL=http://"+links)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("api-%d", i)
		p, err := supervise(ctx, name, func() (child, error) {
			c, err := s.run(name, "reelay", env, "api")
			if err != nil {
				return nil, err
			}
			return c, answers(c, address)
		})
		if err != nil {
			return err
		}
		s.apis = append(s.apis, p)
	}
	at, err := s.network.open(clientsAPI, balancer)
	if err != nil {
		return err
	}
	s.clientsAt = "http://" + at
	for range agentGroups {
		at, err := s.network.open(agentsAPI, balancer)
		if err != nil {
			return err
		}
		s.agentsAt = append(s.agentsAt, "http://"+at)
	}
	return nil
}

// dialAPI acts as the load balancer: it connects to any api that listens.
func (s *stack) dialAPI() (net.Conn, error) {
	err := errors.New("no api process is running")
	for _, i := range rand.Perm(len(s.apiAddresses)) {
		var conn net.Conn
		if conn, err = net.DialTimeout("tcp", s.apiAddresses[i], time.Second); err == nil {
			return metered{conn, s.requests}, nil
		}
	}
	return nil, err
}

// balance starts the load balancer and returns its address. While processes are killed, it is one
// that forwards connections; while they are replaced, one that knows which are ready.
func (s *stack) balance() (string, error) {
	if !s.programs.upgrade {
		proxy, err := s.network.forward(s.dialAPI)
		if err != nil {
			return "", err
		}
		return proxy.Addr(), nil
	}
	var err error
	if s.balancer, err = startBalancer(s.dir, s.apiAddresses); err != nil {
		return "", err
	}
	return s.balancer.address, nil
}

// command runs a command of the `reelay` in a folder and returns what it printed.
func (s *stack) command(ctx context.Context, folder string, args ...string) (string, error) {
	env, err := s.environment(controlPG, controlRedis)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(folder, "reelay"), args...)
	cmd.Env = env
	printed, err := cmd.CombinedOutput()
	if err != nil {
		return string(printed), fmt.Errorf("reelay %s: %w: %s", strings.Join(args, " "), err, printed)
	}
	return string(printed), nil
}

// run starts one of Reelay's programs.
func (s *stack) run(name, program string, env []string, args ...string) (*localstack.Child, error) {
	_, path := s.programs.next(program)
	return localstack.StartChild(localstack.ChildConfig{
		Name: name, Path: path, Args: args, Env: env,
		Log: filepath.Join(s.dir, name+".log"), Grace: 15 * time.Second,
	})
}

func (s *stack) processes() []*process {
	return append(append([]*process{s.postgres, s.redis}, s.apis...), s.controls...)
}

// close ends everything and waits for it.
func (s *stack) close() {
	s.stop()
	for _, p := range s.processes() {
		if p != nil {
			<-p.done
		}
	}
	if s.db != nil {
		s.closeDB()
	}
	if s.store != nil {
		s.store.stop()
	}
	if s.balancer != nil {
		s.balancer.close()
	}
	s.network.close()
}
