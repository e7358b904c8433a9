package program

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEnvironment(t *testing.T) {
	t.Parallel()

	kept := Environment([]string{"PATH=/bin", "REELAY_SECRETS_FILE=x", "DATABASE_URL=x", "REDIS_URL=x", "GCS_BUCKET=x",
		"STORAGE_EMULATOR_HOST=x", "PGPASSWORD=x", "HOME=/root"})

	require.Equal(t, []string{"PATH=/bin", "HOME=/root"}, kept)
}
