package support

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRedact(t *testing.T) {
	t.Setenv("REELAY_S3_SECRET_KEY", "a-secret-of-ours")
	r := newRedactor("rl-of-a-file")

	for text, want := range map[string]string{
		"key rl_live_91UHYJ1XMBzq6UXYd refused":                        "key rl_live_[removed] refused",
		"secret whsec_ab+c/d= here":                                    "secret whsec_[removed] here",
		"dial postgres://reelay:hunter2@db:5432/reelay failed":         "dial postgres://[removed]@db:5432/reelay failed",
		"redis+sentinel://u:hunter2@a:1,b/m?sentinel_password=hunter2": "redis+sentinel://[removed]@a:1,b/m?sentinel_password=[removed]",
		"GET https://b.s3/x?X-Amz-Signature=abc123&X-Amz-Date=2026":    "GET https://b.s3/x?X-Amz-Signature=[removed]&X-Amz-Date=2026",
		"Authorization: Bearer eyJhbGciOi.J9.x":                        "Authorization: [removed] eyJhbGciOi.J9.x",
		`{"password": "hunter2", "n": 1}`:                              `{"password": "[removed]", "n": 1}`,
		"AWS_SECRET_ACCESS_KEY=hunter2 AKIAABCDEFGHIJKLMNOP":           "AWS_SECRET_ACCESS_KEY=[removed] [removed]",
		"-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----":  "[removed]",
		"it says a-secret-of-ours and rl-of-a-file":                    "it says [removed] and [removed]",
		"nothing to hide: job_01a222d2, 3 keys, token":                 "nothing to hide: job_01a222d2, 3 keys, token",
	} {
		got := r.redact(text)
		require.NotContains(t, got, "hunter2")
		if strings.Contains(text, "Bearer") { // one of two rules removes it
			require.NotContains(t, got, "eyJhbGciOi")
			continue
		}
		require.Equal(t, want, got)
	}
}
