package redact_test

import (
	"testing"

	"github.com/reelay/reelay/gpu/agent/redact"
	"github.com/stretchr/testify/require"
)

func TestRedactor(t *testing.T) {
	t.Parallel()

	r := redact.New([]string{"HF_TOKEN=correct horse battery", "DATABASE_PASSWORD=hunter22", "SIGNING_KEY=abcdef123456", "HOME=/home/worker",
		"KEY=on", "KEYBOARD=qwertz"})
	secrets := map[string]string{
		"ABearer":        "Authorization: Bearer abc.def-ghi_jkl",
		"AKey":           "calling with rl_QUJDREVGR0hJSktMTU5PUA",
		"AWorkersToken":  "calling with rlw_QUJDREVGR0hJSktMTU5PUA",
		"AWebhookSecret": "secret whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
		"ASignedLink":    "PUT https://storage.googleapis.com/b/o?X-Goog-Signature=0123456789abcdef&X-Goog-Date=1",
		"APassword":      "postgres://reelay:pass@word@db:5432/reelay",
		"AnAWSKey":       "AKIAIOSFODNN7EXAMPLE",
		"AnAWSSecret":    "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG",
		"AGoogleKey":     "AIzaSyA-1234567890abcdefghijklmnopqrstu",
		"AGoogleToken":   "ya29.a0AfH6SMBxxxxxxxxxxxx",
		"APrivateKey":    "-----BEGIN PRIVATE KEY-----\nMIIEvQ\n-----END PRIVATE KEY-----",
		"AHalfKey":       "-----BEGIN RSA PRIVATE KEY-----\nMIIEvQ",
		"AJWT":           "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.sig_nature",
		"ASetting":       "login failed for correct horse battery",
		"AnotherSetting": "hunter22 is wrong, abcdef123456 too",
		"AnAssignment":   `{"api_key": "0123456789"}`,
	}
	for name, text := range secrets {
		t.Run("Hides"+name, func(t *testing.T) {
			t.Parallel()

			clean := r.Clean(text)

			require.Contains(t, clean, redact.Mark)
			for _, secret := range []string{"def-ghi", "QUJDREVG", "MfKQ9r8", "0123456789", "pass", "word@", "IOSFODNN", "wJalr", "SyA-12", "AfH6SM",
				"MIIEvQ", "sig_nature", "correct", "hunter", "abcdef"} {
				if name == "AnAssignment" && secret == "pass" {
					continue
				}
				require.NotContains(t, clean, secret)
			}
		})
	}

	t.Run("LeavesTheRest", func(t *testing.T) {
		t.Parallel()
		const innocent = "/home/worker: step 3 of 50, max_tokens=77, a lighthouse at https://example.com/docs; the key is on, qwertz"

		require.Equal(t, innocent, r.Clean(innocent))
	})
}
