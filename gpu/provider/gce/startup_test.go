package gce_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// docker is a Docker whose containers end at once. It writes its arguments to a log, and keeps
// the file of variables.
const docker = `#!/bin/sh
echo "$@" >>"$STUB/log"
case $1 in
run) shift; while [ $# -gt 0 ]; do if [ "$1" = --env-file ]; then cp "$2" "$STUB/environment"; fi; shift; done ;;
login) cat >"$STUB/token" ;;
wait) echo "${AGENT_STATUS:-1}" ;;
esac
`

// shutdown notes that it was called.
const shutdown = `#!/bin/sh
echo "shutdown $@" >>"$STUB/log"
`

func TestStartupScript(t *testing.T) {
	t.Parallel()
	values := map[string]string{
		"name": "video-1", "zone": "projects/1/zones/us-central1-a", "attributes/reelay-container": "us-docker.pkg.dev/p/agent:1",
		"service-accounts/default/token": `{"access_token":"ya29.secret","expires_in":3599,"token_type":"Bearer"}`,
		"attributes/reelay-environment":  "REELAY_ENDPOINT=https://reelay.example\n", "attributes/reelay-enrolment-key": "rl_live_secret",
	}
	metadata := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		value, known := values[strings.TrimPrefix(r.URL.Path, "/computeMetadata/v1/instance/")]
		switch {
		case r.Header.Get("Metadata-Flavor") != "Google":
			w.WriteHeader(http.StatusForbidden)
		case known:
			_, _ = w.Write([]byte(value))
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(metadata.Close)
	stub := t.TempDir()
	testrun.WriteProgram(t, filepath.Join(stub, "docker"), docker)
	testrun.WriteProgram(t, filepath.Join(stub, "shutdown"), shutdown)
	cmd := exec.CommandContext(t.Context(), "bash", "startup.sh")
	cmd.Env = append(os.Environ(), "STUB="+stub, "PATH="+stub+":"+os.Getenv("PATH"), "GCE_METADATA_HOST="+
		strings.TrimPrefix(metadata.URL, "http://"))

	out, err := cmd.CombinedOutput()

	require.NoError(t, err, string(out))
	environment, err := os.ReadFile(filepath.Join(stub, "environment"))
	require.NoError(t, err)
	require.Equal(t, "REELAY_ENDPOINT=https://reelay.example\n\nREELAY_AGENT_INSTANCE_ID=video-1\nREELAY_AGENT_ZONE=us-central1-a\n"+
		"REELAY_API_KEY=rl_live_secret\n", string(environment))
	log, err := os.ReadFile(filepath.Join(stub, "log"))
	require.NoError(t, err)
	require.Contains(t, string(log), "run --detach --name reelay-agent --network host --env-file ")
	require.Contains(t, string(log), "us-docker.pkg.dev/p/agent:1\n")
	require.Contains(t, string(log), "login --username oauth2accesstoken --password-stdin https://us-docker.pkg.dev\n")
	require.NotContains(t, string(log), "ya29.secret")
	token, err := os.ReadFile(filepath.Join(stub, "token"))
	require.NoError(t, err)
	require.Equal(t, "ya29.secret", string(token))
	require.NotContains(t, string(log), "rl_live_secret", "arguments are visible to every user of the machine")
	require.NotContains(t, string(log), "shutdown", "an agent that failed leaves its machine for control, and for operators to look at")

	left := exec.CommandContext(t.Context(), "bash", "startup.sh")
	left.Env = append(cmd.Env, "AGENT_STATUS=0")
	out, err = left.CombinedOutput()
	require.NoError(t, err, string(out))
	log, err = os.ReadFile(filepath.Join(stub, "log"))
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(string(log), "shutdown -h now\n"), "a machine whose agent drained ends: %s", log)
}
