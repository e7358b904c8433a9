package localstack_test

import (
	"context"
	"errors"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"cloud.google.com/go/storage"
	"github.com/reelay/reelay/internal/localstack"
	"github.com/stretchr/testify/require"
	"google.golang.org/api/iterator"
	"google.golang.org/api/option"
)

func TestPostgres(t *testing.T) {
	t.Parallel()

	t.Run("FindsItsDataAgainAfterAStop", func(t *testing.T) {
		t.Parallel()

		dir := shortTempDir(t)
		first, err := localstack.StartPostgres(t.Context(), localstack.PostgresConfig{Dir: dir})
		require.NoError(t, err)
		keep(t, first.DSN(), "kept")
		require.NoError(t, first.Stop(t.Context()))

		second := startPostgres(t, dir)

		require.Equal(t, "kept", query(t, second.DSN(), `SELECT title FROM videos`))
	})

	t.Run("FindsItsDataAgainAfterAKill", func(t *testing.T) {
		t.Parallel()

		dir := shortTempDir(t)
		first, err := localstack.StartPostgres(t.Context(), localstack.PostgresConfig{Dir: dir})
		require.NoError(t, err)
		keep(t, first.DSN(), "kept")
		require.NoError(t, syscall.Kill(first.Pid(), syscall.SIGKILL))
		<-first.Done()
		require.ErrorContains(t, first.Err(), "postgres ended unexpectedly (signal: killed)")
		require.NoError(t, first.Stop(t.Context()))

		second := startPostgres(t, dir)

		require.Equal(t, "kept", query(t, second.DSN(), `SELECT title FROM videos`))
	})

	t.Run("IsStartedAgainUnderTheSameAddress", func(t *testing.T) {
		t.Parallel()

		server, err := localstack.StartPostgres(t.Context(), localstack.PostgresConfig{Dir: shortTempDir(t)})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, server.Stop(context.Background())) })
		keep(t, server.DSN(), "kept")
		dsn, killed := server.DSN(), server.Pid()
		require.NoError(t, syscall.Kill(killed, syscall.SIGKILL))
		<-server.Done()

		child, err := server.Restart(t.Context())

		require.NoError(t, err)
		require.NotEqual(t, killed, child.Pid())
		require.Equal(t, dsn, server.DSN())
		require.Equal(t, "kept", query(t, dsn, `SELECT title FROM videos`))
	})

	t.Run("StartsPastAPidFileThatNamesAnotherProcess", func(t *testing.T) {
		t.Parallel()

		dir := shortTempDir(t)
		first, err := localstack.StartPostgres(t.Context(), localstack.PostgresConfig{Dir: dir, Test: true})
		require.NoError(t, err)
		require.NoError(t, first.Stop(t.Context()))
		bystander, err := localstack.StartChild(localstack.ChildConfig{Name: "sleep", Path: "/bin/sleep", Args: []string{"1000"}})
		require.NoError(t, err)
		t.Cleanup(bystander.Kill)
		stale := strconv.Itoa(bystander.Pid()) + "\n" + filepath.Join(dir, "data") + "\n1700000000\n5432\n\n\n        0         0\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, "data", "postmaster.pid"), []byte(stale), 0o600))

		second := startPostgres(t, dir)

		require.Equal(t, "1", query(t, second.DSN(), `SELECT '1'`))
	})

	t.Run("StartsAfterAnInterruptedInitialization", func(t *testing.T) {
		t.Parallel()

		dir := shortTempDir(t)
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "data.new", "base"), 0o700))

		server := startPostgres(t, dir)

		require.Equal(t, "reelay", query(t, server.DSN(), `SELECT current_database()`))
	})

	t.Run("StartsInADirectoryWhosePathIsTooLongForASocket", func(t *testing.T) {
		t.Parallel()

		dir := filepath.Join(shortTempDir(t), strings.Repeat("long, ", 20))

		server := startPostgres(t, dir)

		require.Equal(t, "1", query(t, server.DSN(), `SELECT '1'`))
	})

	t.Run("StartsOnlyOnceInADirectory", func(t *testing.T) {
		t.Parallel()

		dir := shortTempDir(t)
		var (
			starters sync.WaitGroup
			servers  [2]*localstack.Postgres
			errs     [2]error
		)
		for i := range servers {
			starters.Go(func() {
				servers[i], errs[i] = localstack.StartPostgres(t.Context(), localstack.PostgresConfig{Dir: dir, Test: true})
			})
		}
		starters.Wait()

		winner := 0
		if errs[0] != nil {
			winner = 1
		}
		require.NoError(t, errs[winner])
		require.ErrorContains(t, errs[1-winner], "is in use by process "+strconv.Itoa(os.Getpid()))
		require.NoError(t, servers[winner].Stop(t.Context()))
	})

	t.Run("IsClosedToOtherUsers", func(t *testing.T) {
		t.Parallel()

		dir := shortTempDir(t)
		require.NoError(t, os.Chmod(dir, 0o755))

		server := startPostgres(t, dir)

		info, err := os.Stat(dir)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
		require.Empty(t, query(t, server.DSN(), `SHOW listen_addresses`))
	})

	t.Run("RefusesDataOfAReleaseThatIsNotInstalled", func(t *testing.T) {
		t.Parallel()

		dir := shortTempDir(t)
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "data"), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "data", "PG_VERSION"), []byte("7\n"), 0o600))

		_, err := localstack.StartPostgres(t.Context(), localstack.PostgresConfig{Dir: dir})

		require.ErrorContains(t, err, "written by PostgreSQL 7, which is not installed")
	})

	t.Run("LeavesNothingInATemporaryDirectory", func(t *testing.T) {
		t.Parallel()

		server, err := localstack.StartPostgres(t.Context(), localstack.PostgresConfig{Test: true})
		require.NoError(t, err)
		dir := filepath.Dir(query(t, server.DSN(), `SHOW data_directory`))

		require.NoError(t, server.Stop(t.Context()))

		require.NoDirExists(t, dir)
	})
}

func TestRedis(t *testing.T) {
	t.Parallel()

	t.Run("FindsItsDataAgainAfterAStop", func(t *testing.T) {
		t.Parallel()

		dir := shortTempDir(t)
		first, err := localstack.StartRedis(t.Context(), localstack.RedisConfig{Dir: dir})
		require.NoError(t, err)
		require.NoError(t, redisClient(t, first.URL()).Set(t.Context(), "clip", "kept", 0).Err())
		require.NoError(t, first.Stop(t.Context()))

		second := startRedis(t, dir)

		require.Equal(t, "kept", redisClient(t, second.URL()).Get(t.Context(), "clip").Val())
	})

	t.Run("IsStartedAgainUnderTheSameAddress", func(t *testing.T) {
		t.Parallel()

		server := startRedis(t, shortTempDir(t))
		url := server.URL()
		client := redisClient(t, url)
		require.NoError(t, syscall.Kill(server.Pid(), syscall.SIGKILL))
		<-server.Done()

		_, err := server.Restart(t.Context())

		require.NoError(t, err)
		require.Equal(t, url, server.URL())
		require.NoError(t, client.Ping(t.Context()).Err())
	})

	t.Run("RefusesClientsWithoutItsPassword", func(t *testing.T) {
		t.Parallel()

		server := startRedis(t, shortTempDir(t))
		address, err := url.Parse(server.URL())
		require.NoError(t, err)
		address.User = nil

		require.ErrorContains(t, redisClient(t, address.String()).Ping(t.Context()).Err(), "NOAUTH")
	})

	t.Run("NeverEvictsAndLogsEachWrite", func(t *testing.T) {
		t.Parallel()

		client := redisClient(t, startRedis(t, shortTempDir(t)).URL())

		settings := client.ConfigGet(t.Context(), "*").Val()

		require.Equal(t, "noeviction", settings["maxmemory-policy"])
		require.Equal(t, "yes", settings["appendonly"])
		require.Equal(t, "everysec", settings["appendfsync"])
	})
}

func TestObjects(t *testing.T) {
	t.Parallel()

	t.Run("AreFoundAgainAfterAStop", func(t *testing.T) {
		t.Parallel()

		dir := t.TempDir()
		first := startObjects(t, dir)
		object := objectsClient(t, first).Bucket(first.Bucket()).Object("videos/clip.mp4")
		writer := object.If(storage.Conditions{DoesNotExist: true}).NewWriter(t.Context())
		_, err := writer.Write([]byte("frames"))
		require.NoError(t, err)
		require.NoError(t, writer.Close())
		require.NoError(t, first.Stop(t.Context()))

		second := startObjects(t, dir)
		t.Cleanup(func() { require.NoError(t, second.Stop(context.Background())) })

		reader, err := objectsClient(t, second).Bucket(second.Bucket()).Object("videos/clip.mp4").NewReader(t.Context())
		require.NoError(t, err)
		content, err := io.ReadAll(reader)
		require.NoError(t, err)
		require.Equal(t, "frames", string(content))
		require.Equal(t, writer.Attrs().CRC32C, reader.Attrs.CRC32C)
	})

	t.Run("AreListedAfterTheStoreWasKilledDuringAWrite", func(t *testing.T) {
		t.Parallel()

		dir := t.TempDir()
		first := startObjects(t, dir)
		writer := objectsClient(t, first).Bucket(first.Bucket()).Object("videos/clip.mp4").If(storage.Conditions{DoesNotExist: true}).NewWriter(t.Context())
		_, err := writer.Write([]byte("frames"))
		require.NoError(t, err)
		require.NoError(t, writer.Close())
		require.NoError(t, first.Stop(t.Context()))
		half := filepath.Join(dir, "buckets", "reelay", "videos", ".clip.mp48612497")
		require.NoError(t, os.WriteFile(half, []byte("fra"), 0o600))

		second := startObjects(t, dir)
		t.Cleanup(func() { require.NoError(t, second.Stop(context.Background())) })

		objects := objectsClient(t, second).Bucket(second.Bucket()).Objects(t.Context(), nil)
		found, err := objects.Next()
		require.NoError(t, err)
		require.Equal(t, "videos/clip.mp4", found.Name)
		_, err = objects.Next()
		require.ErrorIs(t, err, iterator.Done)
	})

	t.Run("AreListedInPagesAsTheEmulatorListsThem", func(t *testing.T) {
		t.Parallel()

		dir := t.TempDir()
		objects := startObjects(t, dir)
		t.Cleanup(func() { require.NoError(t, objects.Stop(context.Background())) })
		bucket := objectsClient(t, objects).Bucket(objects.Bucket())
		for _, name := range []string{"a-b", "a/1", "a/2/x", "a/2-x", "a0", "b/é %2F?", "b/2", "c"} {
			writer := bucket.Object(name).If(storage.Conditions{DoesNotExist: true}).NewWriter(t.Context())
			writer.ContentType = "text/plain"
			_, err := writer.Write([]byte(name))
			require.NoError(t, err)
			require.NoError(t, writer.Close())
		}
		// An object whose metadata the emulator had not written when it was killed.
		require.NoError(t, os.WriteFile(filepath.Join(dir, "buckets", "reelay", "b", "0"), nil, 0o600))
		list := func(query storage.Query, page int) (found []storage.ObjectAttrs) {
			all := bucket.Objects(t.Context(), &query)
			all.PageInfo().MaxSize = page
			for {
				one, err := all.Next()
				if errors.Is(err, iterator.Done) {
					return found
				}
				require.NoError(t, err)
				found = append(found, *one)
			}
		}

		whole := list(storage.Query{}, 0)

		require.Len(t, whole, 8)
		for _, one := range whole {
			shown, err := bucket.Object(one.Name).Attrs(t.Context())
			require.NoError(t, err)
			require.Equal(t, *shown, one)
		}
		require.NoError(t, os.Remove(filepath.Join(dir, "buckets", "reelay", "b", "0"))) // the emulator cannot list it
		for _, query := range []storage.Query{
			{}, {Prefix: "a"}, {Prefix: "a/"}, {Prefix: "a/2"}, {Prefix: "b/é"}, {Prefix: "z"},
			{StartOffset: "a/2"}, {StartOffset: "a/2/x"}, {StartOffset: "a0"}, {StartOffset: "b/3"}, {StartOffset: "z"},
			{StartOffset: "a/", Prefix: "a/2/"},
		} {
			own := query
			own.EndOffset = "~" // makes the emulator itself list
			expected := list(own, 0)
			for _, page := range []int{0, 1, 2, 3} {
				require.Equal(t, expected, list(query, page), "%+v by %d", query, page)
			}
		}
		_, err := objectsClient(t, objects).Bucket("other").Objects(t.Context(), nil).Next()
		require.ErrorIs(t, err, storage.ErrBucketNotExist)
	})

	t.Run("LockTheirDirectory", func(t *testing.T) {
		t.Parallel()

		dir := t.TempDir()
		first := startObjects(t, dir)

		_, err := localstack.StartObjects(localstack.ObjectsConfig{Dir: dir, Bucket: "reelay"})

		require.ErrorContains(t, err, "is in use by process")
		require.NoError(t, first.Stop(t.Context()))
		require.NoError(t, first.Err())
	})
}

// This test is not parallel, since it changes the PATH of the whole process.
func TestMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())

	_, err := localstack.StartRedis(t.Context(), localstack.RedisConfig{Test: true})

	var missing *localstack.MissingError
	require.ErrorAs(t, err, &missing)
	require.EqualError(t, err, "Redis was not found: there is no redis-server on the PATH nor where packages put it. "+
		"Install it with `go tool task setup`, `apt-get install redis-server` or `brew install redis`")
}

func startObjects(t *testing.T, dir string) *localstack.Objects {
	t.Helper()
	objects, err := localstack.StartObjects(localstack.ObjectsConfig{Dir: dir, Bucket: "reelay"})
	require.NoError(t, err)
	return objects
}

func objectsClient(t *testing.T, objects *localstack.Objects) *storage.Client {
	t.Helper()
	client, err := storage.NewClient(t.Context(), option.WithoutAuthentication(),
		option.WithEndpoint("http://"+objects.Host()+"/storage/v1/"), storage.WithJSONReads())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}
