package settings

import (
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/reelay/reelay/internal/text"
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
	"REELAY_REGION", "REELAY_REGION_PEERS", "REELAY_CLUSTER", "REELAY_GCE_ENDPOINT", "REELAY_GCE_IDENTITY_AUDIENCE", "REELAY_GCE_IDENTITY_KEYS_URL",
	"REELAY_GCE_IDENTITY_PROJECTS", "REELAY_GCE_IDENTITY_ACCOUNTS",
	"REELAY_KUBERNETES_URL", "REELAY_KUBERNETES_TOKEN_FILE", "REELAY_KUBERNETES_CA_FILE", "REELAY_KUBERNETES_NAMESPACE",
	"REELAY_OUTBOUND_LOOPBACK", "REELAY_OUTBOUND_EXCEPT", "REELAY_METRICS_OPEN", "REELAY_STOP_DELAY_SECONDS", "REELAY_FORECAST",
	"REELAY_RETENTION_JOBS_DAYS", "REELAY_RETENTION_EVENTS_DAYS", "REELAY_RETENTION_FILMS_DAYS",
	"REELAY_DATABASE_CONNECTIONS", "REELAY_SPOT_PERCENT", "REELAY_RESERVE_PERCENT", "REELAY_USER_QUEUE_PERCENT",
}

// unrecorded are the other settings of REELAY_… that a process reads: those of its own, and those of the CLI and of the agent,
// which may have the same environment.
var unrecorded = []string{
	"REELAY_LISTEN", "REELAY_METRICS_LISTEN", "REELAY_LOG", "REELAY_NAME", "REELAY_LOCAL_PROVIDER", "REELAY_AGENT_KEY_FILE", "REELAY_DEBUG",
	"REELAY_S3_ACCESS_KEY", "REELAY_S3_SECRET_KEY", "REELAY_ENDPOINT", "REELAY_API_KEY", "REELAY_CA_FILE", "REELAY_QUALITY_GATE",
}

// ofOthers are names that are no settings of this process but not mistaken either: flags of the agent, what tests and tasks set, and
// what Kubernetes sets for a Service whose name begins with reelay.
var ofOthers = regexp.MustCompile(`^REELAY_(AGENT|TEST|FOLLOW|INPUT|BENCH)|_SERVICE_(HOST|PORT)|_PORT$|_PORT_\d+_`)

// Strangers returns a sentence about each variable of an environment that looks like a setting and is none.
func Strangers(environment []string) (all []string) {
	const prefix = "REELAY_"
	known := slices.Concat(recorded, unrecorded)
	var words []string
	for _, name := range known {
		if word, ok := strings.CutPrefix(name, prefix); ok {
			words = append(words, word)
		}
	}
	for _, variable := range environment {
		name, _, _ := strings.Cut(variable, "=")
		word, ok := strings.CutPrefix(name, prefix)
		if !ok || ofOthers.MatchString(name) || slices.Contains(known, name) ||
			slices.Contains(known, strings.TrimSuffix(name, "_FILE")) {
			continue
		}
		says := text.Clip(text.Printable(name), 128) + " is no setting"
		if near := text.Nearest(word, words); near != "" {
			says += "; did you mean " + prefix + near + "?"
		}
		all = append(all, says)
	}
	return all
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
