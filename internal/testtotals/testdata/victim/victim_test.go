// Package victim starts one process of each kind that tests start, and then ends badly.
package victim

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/reelay/reelay/internal/localstack"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { testrun.Main(m.Run) }

func TestVictim(t *testing.T) {
	_, err := localstack.StartPostgres(t.Context(), localstack.PostgresConfig{Test: true})
	require.NoError(t, err)
	_, err = localstack.StartRedis(t.Context(), localstack.RedisConfig{Test: true})
	require.NoError(t, err)
	require.NoError(t, testrun.Command(t, "sleep", "1000").Start())
	require.NoError(t, testrun.Command(t, "bash", "-c", "(while true; do sleep 0.1; done) & wait").Start())

	switch os.Getenv("VICTIM_END") {
	case "panic":
		panic("the victim ends")
	case "forget":
		return
	case "escape":
		require.NoError(t, exec.Command("setsid", "sleep", "1001").Start())
		return
	case "browse":
		browser, cancel := chromedp.NewExecAllocator(t.Context(), chromedp.DefaultExecAllocatorOptions[:]...)
		defer cancel()
		tab, cancel := chromedp.NewContext(browser)
		defer cancel()
		require.NoError(t, chromedp.Run(tab))
		require.NoError(t, os.WriteFile(filepath.Join(os.Getenv("VICTIM_DIR"), "started"), nil, 0o600))
	}
	time.Sleep(time.Hour)
}
