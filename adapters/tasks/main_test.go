package tasks_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/reelay/reelay/adapters/tasks"
	"github.com/reelay/reelay/internal/localstack"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

var server *localstack.Redis

func TestMain(m *testing.M) {
	testrun.Main(func() int {
		var err error
		if server, err = localstack.StartRedis(context.Background(), localstack.RedisConfig{Test: true}); err != nil {
			fmt.Println(err)
			return 1
		}
		defer server.Stop(context.Background())
		return m.Run()
	})
}

// database returns one of the server's databases, emptied. asynq's keys have no prefix, so
// each test has its own database.
func database(t *testing.T, number int) asynq.RedisClientOpt {
	opt, err := asynq.ParseRedisURI(server.URL())
	require.NoError(t, err)
	client := opt.(asynq.RedisClientOpt)
	client.DB = number
	connection := client.MakeRedisClient().(redis.UniversalClient)
	defer connection.Close()
	require.NoError(t, connection.FlushDB(t.Context()).Err())
	return client
}

// run runs the tasks until the test ends or stop is called.
func run(t *testing.T, cfg tasks.Config) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- tasks.Run(ctx, cfg) }()
	stopped := false
	stop = func() {
		cancel()
		if !stopped {
			stopped = true
			require.NoError(t, receive(t, ended))
		}
	}
	t.Cleanup(stop)
	return stop
}

// receive waits for a value, and fails the test if none arrives.
func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	return testrun.Receive(t, "a value", from)
}
