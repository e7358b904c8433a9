package settings

import (
	"strconv"
	"strings"
)

// Environment returns the variables that configure the child process name like c.
func (c *Config) Environment(name string) []string {
	return append([]string{
		"REELAY_NAME=" + name,
		"REELAY_LISTEN=fd:3",
		"REELAY_PUBLIC_URL=" + c.PublicURL,
		"REELAY_SECRETS_FILE=" + c.SecretsFile,
		"REELAY_LOG=" + c.log,
		"REELAY_DATABASE_CONNECTIONS=" + strconv.Itoa(c.DatabaseMax),
		"REELAY_LOCAL_PROVIDER=" + c.LocalProvider,
		"REELAY_OUTBOUND_LOOPBACK=true", // webhooks and images of a laptop are on the laptop
		"REELAY_OUTBOUND_EXCEPT=" + strings.Join(c.Own, ","),
		"REELAY_TLS_CERT=" + c.TLS.Cert,
		"REELAY_TLS_KEY=" + c.TLS.Key,
		"REELAY_VIDEO_MODELS=" + c.VideoModels,
		"DATABASE_URL=" + c.DatabaseURL,
		"REDIS_URL=" + c.RedisURL,
	}, c.Objects.environment()...)
}
