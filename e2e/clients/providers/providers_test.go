// Package providers_test runs the official packages of hosted providers against Reelay's fakes of them. The
// packages are as they are published: what they refuse is wrong with the fake.
package providers_test

import (
	"bytes"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/gpu/runtimes/remote/enginetest"
	"github.com/reelay/reelay/gpu/runtimes/remote/fakeprovider"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { testrun.Main(m.Run) }

const key = "key_of_the_tests"

func TestPackages(t *testing.T) {
	t.Parallel()
	python, err := filepath.Abs("venv/bin/python")
	require.NoError(t, err)
	if _, err := os.Stat(python); err != nil {
		t.Skip("its packages are not there: `go tool task test:providers` fetches them, and runs this test")
	}
	for _, c := range []struct {
		check, provider string
		limited         bool // the package repeats a call that is answered with 429 and Retry-After
		tls             bool // it takes only addresses with https
	}{
		{check: "runwayml", provider: "runway", limited: true},
		{check: "luma_agents", provider: "luma", limited: true},
		{check: "lumaai", provider: "luma", limited: true},
		{check: "replicate", provider: "replicate", tls: true},
		{check: "fal", provider: "fal", tls: true},
		{check: "veo", provider: "veo"},
		{check: "omni", provider: "gemini"},
	} {
		t.Run(c.check, func(t *testing.T) {
			t.Parallel()
			f := enginetest.NewProvider(t, fakeprovider.Config{Provider: c.provider, Key: key})
			f.Run(100 * time.Millisecond)
			url := f.URL
			env := append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
			if c.tls {
				secure := httptest.NewTLSServer(http.HandlerFunc(f.ServeHTTP))
				t.Cleanup(secure.Close)
				url = secure.URL
				certificate := filepath.Join(t.TempDir(), "certificate.pem")
				block := &pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}
				require.NoError(t, os.WriteFile(certificate, pem.EncodeToMemory(block), 0o600))
				env = append(env, "SSL_CERT_FILE="+certificate)
			}
			host := strings.TrimPrefix(url, "https://")
			env = append(env, "REELAY_CHECK_URL="+url, "REELAY_CHECK_KEY="+key, "FAL_QUEUE_RUN_HOST="+host, "FAL_RUN_HOST="+host,
				"FAL_KEY="+key, "REPLICATE_BASE_URL="+url, "REPLICATE_API_TOKEN="+key)
			cmd := testrun.Command(t, python, c.check+"_check.py")
			var out bytes.Buffer
			cmd.Env, cmd.Stdout, cmd.Stderr = env, &out, &out
			if c.limited {
				f.Refuse(time.Second)
			}

			require.NoError(t, cmd.Start())
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			testrun.Eventually(t, "that a call was refused", func() bool { return !c.limited || f.Limited() > 0 || len(ended) > 0 })
			f.Allow()
			err := <-ended

			require.NoError(t, err, out.String())
			t.Log(strings.TrimSpace(out.String()))
			require.Equal(t, c.limited, f.Limited() > 0)
		})
	}
}
