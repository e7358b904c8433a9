package redisurl_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/reelay/reelay/internal/localstack/redistest"
	"github.com/reelay/reelay/internal/redisurl"
	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	require.NoError(t, redistest.WriteCertificates(dir))
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	in := func(name string) string { return filepath.Join(dir, name) }

	t.Run("ReadsWhereRedisIs", func(t *testing.T) {
		t.Parallel()

		for url, want := range map[string]redisurl.Address{
			"redis://localhost":            {Mode: redisurl.Server, Hosts: []string{"localhost:6379"}},
			"redis://u:p@10.0.0.1:7000/3":  {Mode: redisurl.Server, Hosts: []string{"10.0.0.1:7000"}, User: "u"},
			"rediss://:p%40%2F%3F@[::1]/0": {Mode: redisurl.Server, Hosts: []string{"[::1]:6379"}, TLS: true},
			"redis://[::1]:6380":           {Mode: redisurl.Server, Hosts: []string{"[::1]:6380"}},
			"redis+sentinel://u:p@a,b:1,c/main?db=2&sentinel_username=s&sentinel_password=q": {
				Mode: redisurl.Sentinel, Hosts: []string{"a:26379", "b:1", "c:26379"}, Primary: "main", User: "u",
			},
			"rediss+cluster://u:p@a:1,b/?ca=" + in("ca.pem") + "&cert=" + in("client.pem") + "&key=" + in("client.key") + "&server_name=redis": {
				Mode: redisurl.Cluster, Hosts: []string{"a:1", "b:6379"}, TLS: true, User: "u",
			},
			"redis://u@a?password_file=" + file("password", "p\n"): {Mode: redisurl.Server, Hosts: []string{"a:6379"}, User: "u"},
		} {
			got, err := redisurl.Parse(url)

			require.NoError(t, err, url)
			require.Equal(t, []any{want.Mode, want.Hosts, want.Primary, want.TLS, want.User},
				[]any{got.Mode, got.Hosts, got.Primary, got.TLS, got.User}, url)
		}
	})

	t.Run("KnowsWhetherThereIsAPassword", func(t *testing.T) {
		t.Parallel()

		for url, want := range map[string]bool{
			"redis://a": false, "redis://u:p@a": true, "redis://a?password_file=" + file("other", "p"): true,
		} {
			got, err := redisurl.Parse(url)
			require.NoError(t, err)
			require.Equal(t, want, got.HasPassword(), url)
		}
	})

	t.Run("SaysWhatIsWrongAndNotThePassword", func(t *testing.T) {
		t.Parallel()

		const form = "it must be like redis://user:password@host:6379/0, redis+sentinel://user:password@one:26379,two:26379,three:26379/primary"
		const encoded = "must be percent-encoded"
		for url, says := range map[string]string{
			"":                                         form,
			"hunter2":                                  form,
			"http://u:hunter2@host":                    form,
			"redissss://u:hunter2@host":                form,
			"unix:///run/redis.sock":                   form,
			"redis://u:hun%2@host":                     encoded,
			"redis://u:hunter2#@host":                  encoded,
			"redis://u:hunter2/1@host":                 encoded,
			"redis://u:1?hunter2@host":                 "a parameter after the ? is unknown",
			"redis://":                                 "a host or its port is malformed",
			"redis://host:0":                           "a host or its port is malformed",
			"redis://host:65536":                       "a host or its port is malformed",
			"redis://a:1:2":                            "a host or its port is malformed",
			"redis+cluster://a,,b":                     "a host or its port is malformed",
			"redis://a,b":                              "it names several hosts: begin it with redis+sentinel or redis+cluster",
			"redis://host/main":                        "the database must be a number from 0",
			"redis://host/-1":                          "the database must be a number from 0",
			"redis+sentinel://a/m?db=x":                "the database must be a number from 0",
			"redis+sentinel://a,b":                     "the name of the primary is missing",
			"redis+cluster://a/1":                      "a cluster has no databases",
			"redis+cluster://a?db=1":                   "unknown, empty or repeated: it may have password_file, client_name",
			"redis://a?ca=x":                           "a parameter after the ? is unknown",
			"redis://a?client_name=":                   "a parameter after the ? is unknown, empty",
			"redis://a?client_name=1&client_name=2":    "repeated",
			"redis://a?password_file=" + in("nowhere"): "password_file: open " + in("nowhere"),
			"redis://a?password_file=" + file("empty", "\n"):                   "empty is empty: it must have the password",
			"redis://:hunter2@a?password_file=" + file("p", "x"):               "it has a password and password_file: remove one of them",
			"rediss://a?ca=" + in("client.key"):                                "has no certificate in PEM",
			"rediss://a?cert=" + in("client.pem"):                              "it has one of cert and key",
			"rediss://a?cert=" + in("server.pem") + "&key=" + in("client.key"): "cert and key: they must be files of a certificate",
			"redis+sentinel://a/m?sentinel_password_file=" + in("nowhere"):     "sentinel_password_file: open",
		} {
			_, err := redisurl.Parse(url)

			require.ErrorContains(t, err, says, url)
			require.NotContains(t, err.Error(), "hunter2")
		}
	})
}
