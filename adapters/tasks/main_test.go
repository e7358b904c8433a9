package tasks_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/reelay/reelay/adapters/tasks"
	"github.com/reelay/reelay/internal/localstack/redistest"
	"github.com/reelay/reelay/internal/redisurl"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

var server *redistest.Redis

func TestMain(m *testing.M) {
	testrun.Main(func() int {
		var err error
		if server, err = redistest.StartChosen(context.Background(), redistest.Config{}); err != nil {
			fmt.Println(err)
			return 1
		}
		defer server.Stop(context.Background())
		return m.Run()
	})
}

// oneAtATime is held by the test that uses a cluster, which has no databases.
var oneAtATime sync.Mutex

// database returns one of the server's databases, emptied. asynq's keys have no prefix, so
// each test has its own database.
func database(t *testing.T, number int) tasks.Queue {
	url := server.URL()
	switch os.Getenv("REELAY_TEST_REDIS") {
	case "cluster":
		oneAtATime.Lock()
		t.Cleanup(oneAtATime.Unlock)
	case "sentinel":
		url += fmt.Sprintf("&db=%d", number)
	default:
		url = strings.Replace(url, "/0?", fmt.Sprintf("/%d?", number), 1)
	}
	address, err := redisurl.Parse(url)
	require.NoError(t, err)
	queue := tasks.Queue{Address: address}.Patient()
	empty(t, connect(t, queue))
	return queue
}

func connect(t *testing.T, queue tasks.Queue) redis.UniversalClient {
	client := queue.MakeRedisClient().(redis.UniversalClient)
	t.Cleanup(func() { client.Close() })
	return client
}

func empty(t *testing.T, client redis.UniversalClient) {
	require.NoError(t, redisurl.ForEachPrimary(t.Context(), client, func(ctx context.Context, node *redis.Client) error {
		return node.FlushDB(ctx).Err()
	}))
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
