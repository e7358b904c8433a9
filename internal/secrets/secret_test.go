package secrets_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/reelay/reelay/internal/secrets"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/stretchr/testify/require"
)

func TestSecret(t *testing.T) {
	t.Parallel()

	t.Run("IsRecognizedByItsForm", func(t *testing.T) {
		t.Parallel()

		for _, prefix := range []string{"rl_live_", "rlw_live_"} {
			secret, hash := secrets.New(prefix)

			require.Regexp(t, "^"+jobstest.SecretPattern+"$", secret)
			require.Equal(t, prefix, secrets.Kind(secret))
			require.Len(t, hash, 32)
		}
	})

	t.Run("IsNotRecognizedWithAWrongCharacter", func(t *testing.T) {
		t.Parallel()

		secret, _ := secrets.New("rl_live_")
		for i := range secret {
			other := byte('x')
			if secret[i] == other {
				other = 'y'
			}
			mistyped := secret[:i] + string(other) + secret[i+1:]

			require.Empty(t, secrets.Kind(mistyped), mistyped)
		}
		require.Empty(t, secrets.Kind("rlw_live_"+strings.TrimPrefix(secret, "rl_live_")), "a key is no worker's token")
	})
}

func FuzzSecretKind(f *testing.F) {
	secret, _ := secrets.New("rl_live_")
	for _, seed := range []string{"", "rl_", "rlw_", "rl_live_", "rlw_live_", secret, secret + "0", "rl_live_" + strings.Repeat("0", 49),
		"rl_\x00", "rl_\xff"} {
		f.Add(seed)
	}
	form := regexp.MustCompile(`^` + jobstest.SecretPattern + `$`)
	f.Fuzz(func(t *testing.T, text string) {
		if secrets.Kind(text) != "" {
			require.Regexp(t, form, text)
		}
	})
}
