package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/stretchr/testify/require"
)

// TestRotation changes the password of PostgreSQL while an api process runs.
func TestRotation(t *testing.T) {
	t.Parallel()

	role := modelstest.NewRole(t, "first")
	s := newServersOver(t, role.DSN("first"))
	file := filepath.Join(s.dir, "database")
	write := func(password string) {
		require.NoError(t, os.WriteFile(file, []byte(role.DSN(password)+"\n"), 0o600))
	}
	write("first")
	address := "127.0.0.1:" + testrun.FreePort(t)
	s.run(t, "api", append(s.environment("", s.redis.URL()), "DATABASE_URL_FILE="+file, "REELAY_LISTEN="+address))
	ready := func() bool {
		res, err := http.Get("http://" + address + "/readyz")
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	}
	testrun.Eventually(t, "the api is ready", ready)
	c, err := client.New("http://"+address, s.key(t, access.RoleClient))
	require.NoError(t, err)
	drill(t, c, 1)

	role.SetPassword(t, "second")
	write("second")
	role.Disconnect(t)

	testrun.Eventually(t, "the api is ready again", ready)
	drill(t, c, 1)
}
