package settings

import (
	"os"

	"github.com/reelay/reelay/jobs/lease"
)

// recorded are the settings whose changes the feed of changes shows. Those that differ between
// the processes of one installation are not among them: addresses to listen at, names, and logs.
var recorded = []string{
	"DATABASE_URL", "REDIS_URL", "REELAY_STORE", "REELAY_CHECKPOINT_STORE", "GCS_BUCKET", "STORAGE_EMULATOR_HOST", "REELAY_SECRETS_FILE",
	"REELAY_CDN", "REELAY_CDN_KEY_NAME", "REELAY_CDN_KEY_FILE",
	"REELAY_PUBLIC_URL", "REELAY_HOSTS", "REELAY_ORIGINS", "REELAY_INTROSPECTION", "REELAY_CONSOLE_NAME", "REELAY_TLS_CERT", "REELAY_TLS_KEY",
	"REELAY_OIDC_ISSUER", "REELAY_OIDC_CLIENT_ID", "REELAY_OIDC_CLIENT_SECRET", "REELAY_OIDC_SCOPES", "REELAY_OIDC_GROUPS_CLAIM",
	"REELAY_OIDC_ROLES", "REELAY_OIDC_DOMAINS", "REELAY_OIDC_ACCOUNT",
	"REELAY_MODERATION_URL", "REELAY_MODERATION_SECRET", "REELAY_MODERATION_TIMEOUT", "REELAY_MODERATION_ON_FAILURE",
	"REELAY_PROVIDERS", "REELAY_PROVIDER_LIMITS", "REELAY_PRICES", "REELAY_ALERTS", "REELAY_MODELS", "REELAY_VIDEO_MODELS",
	"REELAY_CLUSTER", "REELAY_GCE_ENDPOINT", "REELAY_GCE_IDENTITY_AUDIENCE", "REELAY_GCE_IDENTITY_KEYS_URL",
	"REELAY_GCE_IDENTITY_PROJECTS", "REELAY_GCE_IDENTITY_ACCOUNTS",
	"REELAY_OUTBOUND_LOOPBACK", "REELAY_OUTBOUND_EXCEPT", "REELAY_METRICS_OPEN", "REELAY_STOP_DELAY_SECONDS", "REELAY_FORECAST",
	"REELAY_RETENTION_JOBS_DAYS", "REELAY_RETENTION_EVENTS_DAYS", "REELAY_RETENTION_FILMS_DAYS",
	"REELAY_DATABASE_CONNECTIONS", "REELAY_SPOT_PERCENT", "REELAY_RESERVE_PERCENT", "REELAY_USER_QUEUE_PERCENT",
}

// Safe returns the recorded settings of this process without secrets.
func Safe() map[string]string { return lease.SafeSettings(recordedSettings()) }

// recordedSettings returns the recorded settings of this process.
func recordedSettings() map[string]string {
	all := map[string]string{}
	for _, name := range recorded {
		all[name] = os.Getenv(name)
	}
	return all
}
