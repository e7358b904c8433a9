package images

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/reelay/reelay/internal/faultproxy"
	"github.com/reelay/reelay/internal/localstack"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { testrun.Main(m.Run) }

// mountReadOnly makes the files of the image unchangeable until the test ends.
func (i *image) mountReadOnly(t *testing.T) {
	t.Helper()
	require.NoError(t, syscall.Mount(i.root, i.root, "", syscall.MS_BIND, ""))
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(i.root, syscall.MNT_DETACH)) })
	require.NoError(t, syscall.Mount("", i.root, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY, ""))
	require.ErrorIs(t, os.WriteFile(filepath.Join(i.root, "file"), nil, 0o600), syscall.EROFS)
}

// command returns a command of the image as a container runs it: in its files, as its user, and with its environment.
func (i *image) command(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := testrun.Command(t, i.config.Entrypoint[0], args...)
	cmd.Dir = "/"
	cmd.Env = append(append([]string{}, i.config.Env...), env...)
	cmd.SysProcAttr.Chroot = i.root
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: 65532, Gid: 65532}
	return cmd
}

// TestImage builds the image of the servers and runs it without a container engine.
func TestImage(t *testing.T) {
	if os.Getenv("REELAY_TEST_IMAGES") == "" {
		t.Skip("it needs root, buildah and a release in dist: run `go tool task test:images`")
	}
	i := build(t, "reelay")

	t.Run("IsSmallAndHasNoShell", func(t *testing.T) {
		require.Less(t, i.size, int64(128<<20))
		var programs []string
		require.NoError(t, filepath.WalkDir(i.root, func(path string, entry os.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() {
				if info, err := entry.Info(); err == nil && info.Mode()&0o111 != 0 {
					programs = append(programs, strings.TrimPrefix(path, i.root))
				}
			}
			return err
		}))
		require.Equal(t, []string{"/usr/bin/reelay"}, programs)
	})

	t.Run("SaysWhatItIs", func(t *testing.T) {
		require.Equal(t, "65532:65532", i.config.User)
		require.Equal(t, []string{"/usr/bin/reelay"}, i.config.Entrypoint)
		require.Equal(t, []string{"api"}, i.config.Cmd)
		require.Contains(t, i.config.ExposedPorts, "8080/tcp")
		require.Equal(t, "SIGTERM", i.config.StopSignal)
		require.Equal(t, []string{"CMD", "/usr/bin/reelay", "healthcheck"}, i.config.Healthcheck.Test)
		for _, label := range []string{"title", "description", "url", "source", "documentation", "licenses", "version", "revision"} {
			require.NotEmpty(t, i.config.Labels["org.opencontainers.image."+label], label)
		}
		require.Regexp(t, "^[0-9a-f]{40}$", i.config.Labels["org.opencontainers.image.revision"])
	})

	t.Run("RunsWithAReadOnlyRoot", func(t *testing.T) {
		env := i.stores(t)
		i.mountReadOnly(t)
		say := func(args ...string) string {
			said, err := i.command(t, env, args...).CombinedOutput()
			require.NoError(t, err, string(said))
			return string(said)
		}
		require.Contains(t, say("version"), runtime.GOARCH)
		say("migrate")
		port := testrun.FreePort(t)
		env = append(env, "REELAY_LISTEN=0.0.0.0:"+port)
		probe := "http://127.0.0.1:" + port + "/readyz"
		require.Error(t, i.command(t, env, "healthcheck", probe).Run(), "no process listens yet")
		log := &bytes.Buffer{}
		api := i.command(t, env, i.config.Cmd...)
		api.Stdout, api.Stderr = log, log
		require.NoError(t, api.Start())
		t.Cleanup(func() {
			if t.Failed() {
				t.Log(log)
			}
		})

		testrun.Eventually(t, "the api is ready", func() bool { return i.command(t, env, "healthcheck", probe).Run() == nil })
		say("keys", "bootstrap")
		require.NoError(t, api.Process.Signal(syscall.SIGTERM))
		require.NoError(t, api.Wait(), "it stops by itself")
	})
}

// stores starts the stores, and returns the settings by which the image finds them. Secrets are files of the image.
func (i *image) stores(t *testing.T) []string {
	t.Helper()
	start := func(stop func(context.Context) error, err error) {
		require.NoError(t, err)
		t.Cleanup(func() { _ = stop(context.WithoutCancel(t.Context())) })
	}
	postgres, err := localstack.StartPostgres(t.Context(), localstack.PostgresConfig{Test: true})
	start(postgres.Stop, err)
	redis, err := localstack.StartRedis(t.Context(), localstack.RedisConfig{Test: true})
	start(redis.Stop, err)
	objects, err := localstack.StartS3(t.Context(), localstack.S3Config{Dir: t.TempDir(), Bucket: "reelay"})
	start(objects.Stop, err)
	// The server listens at a socket that is outside of the image.
	database, err := url.Parse(postgres.DSN())
	require.NoError(t, err)
	query := database.Query()
	door := faultproxy.New(t, "unix", fmt.Sprintf("%s/.s.PGSQL.%s", query.Get("host"), query.Get("port")))
	access, secret := objects.Keys()

	folder := filepath.Join(i.root, "run/secrets")
	require.NoError(t, os.MkdirAll(folder, 0o755))
	require.NoError(t, os.Chown(folder, 65532, 65532))
	said, err := i.command(t, nil, "secrets", "create", "/run/secrets/reelay").CombinedOutput()
	require.NoError(t, err, string(said))
	env := []string{"REELAY_STORE=s3://reelay?links=api&endpoint=" + objects.Endpoint(), "REELAY_SECRETS_FILE=/run/secrets/reelay"}
	for name, value := range map[string]string{
		"DATABASE_URL":         "postgres://reelay:none@" + door.Addr() + database.Path + "?sslmode=disable",
		"REDIS_URL":            redis.URL(),
		"REELAY_S3_ACCESS_KEY": access, "REELAY_S3_SECRET_KEY": secret,
	} {
		path := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(path, []byte(value), 0o400))
		require.NoError(t, os.Chown(path, 65532, 65532))
		env = append(env, name+"_FILE=/run/secrets/"+name)
	}
	return env
}
