package settings

import (
	"strings"
	"testing"

	"github.com/reelay/reelay/cmd/reelay/internal/front"
	"github.com/reelay/reelay/features/upkeep"
	"github.com/stretchr/testify/require"
)

func TestRetention(t *testing.T) {
	const jobsDays, eventsDays, videosDays = "REELAY_RETENTION_JOBS_DAYS", "REELAY_RETENTION_EVENTS_DAYS", "REELAY_RETENTION_FILMS_DAYS"

	t.Run("IsParsedInDays", func(t *testing.T) {
		for name, c := range map[string]struct {
			env  map[string]string
			want upkeep.Retention
		}{
			"nothing set": {nil, upkeep.Retention{Jobs: 180 * day, Events: 90 * day, Videos: 30 * day}},
			"all set": {map[string]string{jobsDays: "10", eventsDays: "9", videosDays: "1"},
				upkeep.Retention{Jobs: 10 * day, Events: 9 * day, Videos: day}},
			"nothing outlives its job": {map[string]string{jobsDays: "20"}, upkeep.Retention{Jobs: 20 * day, Events: 20 * day, Videos: 20 * day}},
		} {
			for _, setting := range []string{jobsDays, eventsDays, videosDays} {
				t.Setenv(setting, c.env[setting])
			}
			cfg := Read()

			require.NoError(t, cfg.Check(), name)
			require.Equal(t, c.want, cfg.Retention, name)
		}
	})

	t.Run("RefusesInvalidValues", func(t *testing.T) {
		for _, setting := range []string{jobsDays, eventsDays, videosDays} {
			for _, value := range []string{"0", "-1", "3651", "1.5", "30d", "99999999999999999999"} {
				t.Setenv(setting, value)
				cfg := Read()

				require.ErrorContains(t, cfg.Check(), setting+` is "`+value+`": it must be a number of days from 1 to `, setting)
			}
			t.Setenv(setting, "")
		}
		t.Setenv(videosDays, "181")
		cfg := Read()
		require.ErrorContains(t, cfg.Check(), "from 1 to 180", "a video does not outlive its job")
	})
}

func TestUserQueuePercent(t *testing.T) {
	const setting = "REELAY_USER_QUEUE_PERCENT"

	t.Run("DefaultsToHalf", func(t *testing.T) {
		for value, want := range map[string]int{"": 50, "1": 1, "100": 100} {
			t.Setenv(setting, value)
			cfg := Read()

			require.NoError(t, cfg.Check())
			require.Equal(t, want, cfg.UserShare)
		}
	})

	t.Run("IsAPercentage", func(t *testing.T) {
		for _, value := range []string{"0", "101", "-1", "50%", "half"} {
			t.Setenv(setting, value)
			cfg := Read()

			require.ErrorContains(t, cfg.Check(), setting+` is "`+value+`": it must be a number from 1 to 100`)
		}
	})
}

func TestModels(t *testing.T) {
	const setting = "REELAY_MODELS"

	t.Run("AreAlsoReadFromAFolder", func(t *testing.T) {
		t.Setenv(setting, "../../../../bench/models")
		cfg := Read()
		require.NoError(t, cfg.Check())

		_, known, err := cfg.LoadModels()

		require.NoError(t, err)
		_, err = known.Model("bench.noop")
		require.NoError(t, err)
	})

	t.Run("RefusesAFolderWithoutAList", func(t *testing.T) {
		t.Setenv(setting, t.TempDir())
		cfg := Read()

		require.ErrorContains(t, cfg.Check(), setting+` is "`)
	})
}

func TestConfig_ReadsTheStores(t *testing.T) {
	for name, c := range map[string]struct {
		settings map[string]string
		says     string
	}{
		"OfS3":         {map[string]string{"REELAY_STORE": "s3://clips?region=eu-1", "REELAY_CHECKPOINT_STORE": "s3://fast?endpoint=http://10.0.0.1:9000"}, ""},
		"OfGoogle":     {map[string]string{"GCS_BUCKET": "clips"}, ""},
		"OrTwo":        {map[string]string{"GCS_BUCKET": "clips", "REELAY_STORE": "gs://clips"}, "REELAY_STORE and GCS_BUCKET are both set"},
		"OrAFolder":    {map[string]string{"REELAY_STORE": "s3://clips/a?region=eu-1"}, "REELAY_STORE is wrong: it names a bucket only"},
		"OrKeys":       {map[string]string{"REELAY_STORE": "s3://key:hunter2@clips"}, "REELAY_STORE is wrong: it must not contain keys"},
		"OrHalfAKey":   {map[string]string{"REELAY_S3_SECRET_KEY": "hunter2"}, "must be set both or not at all"},
		"Checkpoints'": {map[string]string{"REELAY_CHECKPOINT_STORE": "fast"}, "REELAY_CHECKPOINT_STORE is wrong: it must be gs://BUCKET or s3://BUCKET"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, setting := range []string{"REELAY_STORE", "GCS_BUCKET", "REELAY_CHECKPOINT_STORE", "REELAY_S3_ACCESS_KEY", "REELAY_S3_SECRET_KEY"} {
				t.Setenv(setting, c.settings[setting])
			}
			cfg := Read()

			err := cfg.Check()

			if c.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), "hunter2")
		})
	}
}

func TestConfig_ReportsAllErrorsAtOnce(t *testing.T) {
	for name, value := range map[string]string{
		"REELAY_LISTEN": "nowhere", "REELAY_PUBLIC_URL": "ftp://reelay.example", "REELAY_DATABASE_CONNECTIONS": "0",
		"REELAY_INTROSPECTION": "maybe",
		"REELAY_LOG":           "xml", "REELAY_CONSOLE_NAME": strings.Repeat("a", 41), "REELAY_GCE_ENDPOINT": "ftp://google",
		"REELAY_GCE_IDENTITY_PROJECTS": "My_Project", "REELAY_GCE_IDENTITY_KEYS_URL": "certs.json", "REELAY_CLUSTER": strings.Repeat("a", 64),
		"REELAY_PROVIDERS": "/nowhere", "REELAY_PRICES": "/nowhere", "REELAY_ALERTS": "/nowhere", "REELAY_METRICS_OPEN": "yes",
		"REELAY_HOSTS": "a b", "REELAY_ORIGINS": "https://app.example", "REELAY_TLS_CERT": "/nowhere.pem", "REELAY_VIDEO_MODELS": "sora-2",
		"REELAY_STOP_DELAY_SECONDS": "3s", "REELAY_SPOT_PERCENT": "70 %", "REELAY_RESERVE_PERCENT": "-1", "REELAY_FORECAST": "off",
		"REELAY_USER_QUEUE_PERCENT": "101", "REELAY_RETENTION_JOBS_DAYS": "0", "GCS_BUCKET": "gs://films",
		"REELAY_MODERATION_URL": "ftp://user:hunter2@host", "REELAY_MODERATION_SECRET": "hunter2 hunter2", "REELAY_MODERATION_TIMEOUT": "99ms",
		"REELAY_MODERATION_ON_FAILURE": "ajar",
		"REELAY_KUBERNETES_URL":        "http://10.0.0.1", "REELAY_KUBERNETES_CA_FILE": "/nowhere.pem", "REELAY_KUBERNETES_NAMESPACE": "Reelay!",
		"DATABASE_URL": "mysql://user:hunter2@host/x", "REDIS_URL": "http://:hunter2@host", "REELAY_SECRETS_FILE": "",
	} {
		t.Setenv(name, value)
	}
	cfg := Read()

	err := cfg.Need()

	for _, named := range []string{
		"REELAY_LISTEN", "REELAY_PUBLIC_URL", "REELAY_DATABASE_CONNECTIONS", "REELAY_INTROSPECTION", "REELAY_LOG", "REELAY_CONSOLE_NAME",
		"REELAY_GCE_ENDPOINT", "REELAY_GCE_IDENTITY_PROJECTS", "REELAY_GCE_IDENTITY_KEYS_URL", "REELAY_CLUSTER", "REELAY_PROVIDERS",
		"REELAY_KUBERNETES_URL", "REELAY_KUBERNETES_TOKEN_FILE", "REELAY_KUBERNETES_CA_FILE", "REELAY_KUBERNETES_NAMESPACE",
		"REELAY_PRICES", "REELAY_ALERTS", "REELAY_METRICS_OPEN", "REELAY_HOSTS", "REELAY_ORIGINS",
		"REELAY_TLS_KEY", "REELAY_VIDEO_MODELS", "REELAY_USER_QUEUE_PERCENT",
		"REELAY_STOP_DELAY_SECONDS", "REELAY_SPOT_PERCENT", "REELAY_RESERVE_PERCENT", "REELAY_FORECAST", "REELAY_RETENTION_JOBS_DAYS",
		"GCS_BUCKET", "DATABASE_URL", "REDIS_URL",
		"REELAY_MODERATION_URL", "REELAY_MODERATION_SECRET", "REELAY_MODERATION_TIMEOUT", "REELAY_MODERATION_ON_FAILURE",
		"REELAY_SECRETS_FILE",
	} {
		require.Equal(t, 1, strings.Count("\n"+err.Error(), "\n"+named), "%s in %v", named, err)
	}
	require.NotContains(t, err.Error(), "hunter2")
}

func TestHostsSetting(t *testing.T) {
	t.Setenv("REELAY_HOSTS", "https://reelay.example")
	cfg := Read()

	require.ErrorContains(t, cfg.Check(), `REELAY_HOSTS is "https://reelay.example": it must be host names`)

	t.Setenv("REELAY_HOSTS", "reelay.example")
	require.NoError(t, cfg.Check())
	require.Equal(t, front.Hosts{"reelay.example"}, cfg.Hosts)
}
