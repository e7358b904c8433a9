package redisurl_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/reelay/reelay/internal/localstack/redistest"
	"github.com/reelay/reelay/internal/redisurl"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { testrun.Main(m.Run) }

func start(t *testing.T, config redistest.Config) *redistest.Redis {
	t.Helper()
	server, err := redistest.Start(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { server.Stop(context.Background()) })
	return server
}

func open(t *testing.T, url string) redis.UniversalClient {
	t.Helper()
	address, err := redisurl.Parse(url)
	require.NoError(t, err)
	client := address.Open(testrun.WaitLimit)
	t.Cleanup(func() { client.Close() })
	return client
}

func TestOpen(t *testing.T) {
	t.Parallel()

	for _, mode := range []redisurl.Mode{redisurl.Server, redisurl.Sentinel, redisurl.Cluster} {
		for _, encrypted := range []bool{false, true} {
			t.Run(fmt.Sprintf("Reaches%sWithTLS%t", mode, encrypted), func(t *testing.T) {
				t.Parallel()
				server := start(t, redistest.Config{Mode: mode, TLS: encrypted})
				client := open(t, server.URL()+"&client_name=reelay-test")

				for i := range 20 {
					require.NoError(t, client.Set(t.Context(), fmt.Sprint("key", i), i, 0).Err())
				}

				var keys, servers int64
				require.NoError(t, redisurl.ForEachPrimary(t.Context(), client, func(ctx context.Context, node *redis.Client) error {
					n, err := node.DBSize(ctx).Result()
					keys, servers = keys+n, servers+1
					return err
				}))
				require.Equal(t, int64(20), keys)
				require.Equal(t, map[redisurl.Mode]int64{redisurl.Server: 1, redisurl.Sentinel: 1, redisurl.Cluster: 3}[mode], servers)
				node := server.Primary(t.Context(), "key1").Client()
				defer node.Close()
				require.Contains(t, node.ClientList(t.Context()).Val(), "name=reelay-test")
			})
		}
	}

	t.Run("ReadsTheFilesAgainForEachConnection", func(t *testing.T) {
		t.Parallel()
		server := start(t, redistest.Config{TLS: true})
		require.NoError(t, redistest.Run(t.Context(), server.Nodes, "ACL", "SETUSER", "reelay", "on", ">first", "~*", "&*", "+@all"))
		file := server.File("password")
		require.NoError(t, os.WriteFile(file, []byte("first\n"), 0o600))
		url := strings.Replace(server.URLOf("reelay", "x"), ":x@", "@", 1) + "&password_file=" + file
		client := open(t, url)
		require.NoError(t, client.Ping(t.Context()).Err())

		admin := server.Nodes[0].Client()
		defer admin.Close()
		require.NoError(t, admin.Do(t.Context(), "ACL", "SETUSER", "reelay", "resetpass", ">second").Err())
		require.NoError(t, os.WriteFile(file, []byte("second\n"), 0o600))
		require.NoError(t, admin.ClientKillByFilter(t.Context(), "USER", "reelay").Err())
		require.NoError(t, client.Ping(t.Context()).Err(), "a new connection has the new password")

		require.NoError(t, redistest.WriteCertificates(strings.TrimSuffix(server.File(""), "/")))
		require.NoError(t, admin.Do(t.Context(), "CONFIG", "SET", "tls-ca-cert-file", server.File("ca.pem"),
			"tls-cert-file", server.File("server.pem"), "tls-key-file", server.File("server.key")).Err())
		require.NoError(t, admin.ClientKillByFilter(t.Context(), "USER", "reelay").Err())
		require.NoError(t, client.Ping(t.Context()).Err(), "a new connection has the new certificate")
	})

	t.Run("FollowsTheUserAndPasswordOfItsURL", func(t *testing.T) {
		t.Parallel()
		server := start(t, redistest.Config{})
		admin := server.Nodes[0].Client()
		defer admin.Close()
		for _, user := range []string{"first", "second"} {
			require.NoError(t, admin.Do(t.Context(), "ACL", "SETUSER", user, "on", ">"+user, "~*", "&*", "+@all").Err())
		}
		var url atomic.Value
		url.Store(server.URLOf("first", "first"))
		address, err := redisurl.Follow(func() string { return url.Load().(string) })
		require.NoError(t, err)
		client := address.Open(testrun.WaitLimit)
		t.Cleanup(func() { client.Close() })
		whoami := func() string {
			_, err := admin.ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes").Result()
			require.NoError(t, err)
			name, err := client.Do(t.Context(), "ACL", "WHOAMI").Text()
			require.NoError(t, err)
			return name
		}
		require.Equal(t, "first", whoami())

		url.Store(server.URLOf("second", "second"))
		require.Equal(t, "second", whoami())

		for _, wrong := range []string{"", "redis://third:third@elsewhere:1"} {
			url.Store(wrong)
			require.Equal(t, "first", whoami(), "the URL of the start stays in use")
		}
	})

	t.Run("MeasuresItsCalls", func(t *testing.T) {
		t.Parallel()
		server := start(t, redistest.Config{})
		address, err := redisurl.Parse(server.URL())
		require.NoError(t, err)
		var results []string
		address.Observe = func(result string, took time.Duration) {
			require.Positive(t, took)
			results = append(results, result)
		}
		client := address.Open(testrun.WaitLimit, func(o *redis.UniversalOptions) { o.MaxRetries = -1 })
		t.Cleanup(func() { client.Close() })

		require.ErrorIs(t, client.Get(t.Context(), "none").Err(), redis.Nil)
		require.NoError(t, redis.NewScript("return 1").Run(t.Context(), client, nil).Err())
		require.Error(t, client.LPush(t.Context(), "list").Err())
		_, err = client.Pipelined(t.Context(), func(p redis.Pipeliner) error { return p.Set(t.Context(), "a", 1, 0).Err() })
		require.NoError(t, err)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		require.Error(t, client.Ping(gone).Err())
		require.Equal(t, []string{"ok", "ok", "ok", "refused", "ok", "cancelled"}, results)

		server.Stop(t.Context())
		results = nil
		require.Error(t, client.Ping(t.Context()).Err())
		require.Equal(t, []string{"error"}, results)
	})

	t.Run("AsksAnotherSentinelWhenOneHangs", func(t *testing.T) {
		t.Parallel()
		server := start(t, redistest.Config{Mode: redisurl.Sentinel})
		address, err := redisurl.Parse(server.URL() + "&client_name=reelay-test")
		require.NoError(t, err)
		client := address.Open(200 * time.Millisecond)
		t.Cleanup(func() { client.Close() })
		ping := func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond) // as the ready index has it
			defer cancel()
			return client.Ping(ctx).Err() == nil
		}
		testrun.Eventually(t, "it answers", ping)

		for _, node := range server.Sentinels {
			admin := node.Client()
			defer admin.Close()
			if strings.Contains(admin.Do(t.Context(), "CLIENT", "LIST").String(), "name=reelay-test") {
				require.NoError(t, node.Freeze())
			}
		}
		admin := server.Nodes[0].Client()
		defer admin.Close()
		require.NoError(t, admin.ClientKillByFilter(t.Context(), "TYPE", "normal").Err())

		testrun.Eventually(t, "it answers again", ping)
	})

	t.Run("VerifiesTheServer", func(t *testing.T) {
		t.Parallel()
		server := start(t, redistest.Config{TLS: true})
		ping := func(url string) error { return open(t, url).Ping(t.Context()).Err() }

		require.ErrorContains(t, ping(server.URL()+"&server_name=redis.example"), "redis.example")
		require.NoError(t, ping(server.URL()+"&server_name=localhost"))
		bare, _, _ := strings.Cut(server.URL(), "?")
		require.ErrorContains(t, ping(bare), "certificate signed by unknown authority")
		require.Error(t, ping(bare+"?ca="+server.File("ca.pem")), "it asks for a client's certificate")
	})
}
