package localstack_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/reelay/reelay/internal/localstack"
	"github.com/reelay/reelay/internal/redisurl"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// parentDir is an environment variable that makes this test binary a parent process that
// a test can kill.
const parentDir = "REELAY_TEST_PARENT_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(parentDir); dir != "" {
		if err := beParent(dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	testrun.Main(m.Run)
}

// beParent starts a server and a child that has a child itself, prints their process ids,
// and waits to be killed.
func beParent(dir string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	postgres, err := localstack.StartPostgres(ctx, localstack.PostgresConfig{Dir: filepath.Join(dir, "postgres")})
	if err != nil {
		return err
	}
	redis, err := localstack.StartRedis(ctx, localstack.RedisConfig{Dir: filepath.Join(dir, "redis")})
	if err != nil {
		return err
	}
	shell, err := localstack.StartChild(localstack.ChildConfig{
		Name: "shell", Path: "/bin/sh",
		Args: []string{"-c", "trap '' TERM; sleep 1000 & echo $! >grandchild.new; mv grandchild.new grandchild; wait; wait"},
		Dir:  dir, Grace: 200 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	fmt.Println(postgres.Pid(), redis.Pid(), shell.Pid())
	<-ctx.Done()
	return errors.Join(shell.Stop(context.Background()), redis.Stop(context.Background()), postgres.Stop(context.Background()))
}

// startParent runs beParent in another process.
func startParent(t *testing.T, dir string) (parent *exec.Cmd, children []int) {
	t.Helper()
	parent = exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentDir+"="+dir)
	output, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	t.Cleanup(func() { _ = parent.Process.Kill() })

	line, err := bufio.NewReader(output).ReadString('\n')
	require.NoError(t, err, "the parent must start; it says %q", line)
	for _, field := range strings.Fields(line) {
		pid, err := strconv.Atoi(field)
		require.NoError(t, err, "the parent says %q", line)
		children = append(children, pid)
	}
	go io.Copy(io.Discard, output)
	return parent, children
}

func gone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

func requireGone(t *testing.T, pid int) {
	t.Helper()
	testrun.Eventually(t, fmt.Sprintf("process %d must end", pid), func() bool { return gone(pid) })
}

func startPostgres(t *testing.T, dir string) *localstack.Postgres {
	t.Helper()
	postgres, err := localstack.StartPostgres(t.Context(), localstack.PostgresConfig{Dir: dir, Test: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, postgres.Stop(context.Background())) })
	return postgres
}

func startRedis(t *testing.T, dir string) *localstack.Redis {
	t.Helper()
	server, err := localstack.StartRedis(t.Context(), localstack.RedisConfig{Dir: dir})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.Background())) })
	return server
}

func keep(t *testing.T, dsn, title string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), `CREATE TABLE videos (title text)`)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), `INSERT INTO videos VALUES ($1)`, title)
	require.NoError(t, err)
}

func query(t *testing.T, dsn, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	var result string
	require.NoError(t, conn.QueryRow(t.Context(), sql).Scan(&result))
	return result
}

func redisClient(t *testing.T, url string) redis.UniversalClient {
	t.Helper()
	address, err := redisurl.Parse(url)
	require.NoError(t, err)
	client := address.Open(testrun.WaitLimit)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}
