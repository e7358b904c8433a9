package agent

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/agent/host"
	"github.com/stretchr/testify/require"
)

func TestCommand(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		args []string
		want string
	}{
		"NoKey":        {[]string{"--key=", "--data=none"}, "--key is empty: set REELAY_API_KEY"},
		"NoURL":        {[]string{"--key=k", "--endpoint=nowhere"}, `"nowhere" is not a URL`},
		"ShortNotice":  {[]string{"--key=k", "--notice=1ms"}, "--notice is 1ms: it must be from 1s to 1h"},
		"NoGrace":      {[]string{"--key=k", "--stop-grace=0s"}, "--stop-grace is 0s: it must be from 100ms to 5m"},
		"LongHang":     {[]string{"--key=k", "--hang-timeout=6h"}, "--hang-timeout is 6h0m0s: it must be from 1s to 5h"},
		"StrangeClass": {[]string{"--key=k", "--capacity-class=CHEAP"}, `"CHEAP": it must be SPOT or ON_DEMAND`},
		"StrangePacking": {[]string{"--key=k", "--checkpoint-compression=gzip"},
			`--checkpoint-compression is "gzip": it must be auto, off or zstd`},
		"StrangeLog":      {[]string{"--key=k", "--log=xml"}, `--log is "xml": it must be text or json`},
		"NamelessRuntime": {[]string{"--key=k", "--runtime=python3 wan.py"}, "it must be name=command"},
		"EmptyRegion":     {[]string{"--key=k", "--region=", "--instance-id=one"}, "the region is empty"},
		"ShortGrace": {[]string{"--key=k", "--grace=45s", "--notice=50s"},
			"--grace is 45s: it must be at least 1m0s, which is --notice (50s) for the checkpoint and its upload, " +
				"and 10s to release the job and to deregister. In Kubernetes set terminationGracePeriodSeconds to 60"},
		"NegativeGrace":    {[]string{"--key=k", "--grace=-1s"}, "--grace is -1s: it must be from 1s to 24h"},
		"LongIdle":         {[]string{"--key=k", "--exit-when-idle=25h"}, "--exit-when-idle is 25h0m0s: it must be from 1s to 24h"},
		"ShortIdle":        {[]string{"--key=k", "--exit-when-idle=1ms"}, "--exit-when-idle is 1ms: it must be from 1s to 24h"},
		"NoHealthPort":     {[]string{"--key=k", "--health=8081", "--instance-id=one"}, "--health is 8081: it must be a free address"},
		"StrangeHealth":    {[]string{"--key=k", "--health=:99999", "--instance-id=one"}, "listen tcp: address 99999: invalid port"},
		"PathAsInstanceID": {[]string{"--key=k", "--instance-id=../x"}, "must not contain a path"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command := Command("test")
			command.SetArgs(test.args)

			err := command.ExecuteContext(t.Context())

			require.ErrorContains(t, err, test.want)
		})
	}
}

func TestFromEnvironment(t *testing.T) {
	t.Parallel()

	environment := map[string]string{
		"REELAY_API_KEY": "rl_1", "REELAY_AGENT_MODELS": "wan,ltx", "REELAY_AGENT_REGION": "eu", "REELAY_AGENT_NOTICE": "12s",
	}
	lookup := func(name string) (string, bool) { v, ok := environment[name]; return v, ok }

	t.Run("FillsWhatNoFlagGives", func(t *testing.T) {
		t.Parallel()
		command := Command("test")
		require.NoError(t, command.ParseFlags([]string{"--region=us"}))

		require.NoError(t, fromEnvironment(command, lookup))

		flags := command.Flags()
		models, err := flags.GetStringSlice("models")
		require.NoError(t, err)
		notice, err := flags.GetDuration("notice")
		require.NoError(t, err)
		require.Equal(t, "us", flags.Lookup("region").Value.String())
		require.Equal(t, "rl_1", flags.Lookup("key").Value.String())
		require.Equal(t, []string{"wan", "ltx"}, models)
		require.Equal(t, 12*time.Second, notice)
	})

	t.Run("NamesTheVariableThatIsWrong", func(t *testing.T) {
		t.Parallel()

		err := fromEnvironment(Command("test"), func(name string) (string, bool) { return "soon", name == "REELAY_AGENT_NOTICE" })

		require.ErrorContains(t, err, `REELAY_AGENT_NOTICE is "soon"`)
	})
}

func TestGraceThatSuffices(t *testing.T) {
	t.Parallel()
	for grace, fits := range map[time.Duration]bool{0: true, 39 * time.Second: false, 40 * time.Second: true, time.Hour: true} {
		s := settings{notice: 30 * time.Second, grace: grace, stopGrace: time.Second, hangTimeout: time.Minute, loadTimeout: time.Minute,
			giveUp: time.Minute}
		require.Equal(t, fits, s.checkTimes() == nil, grace)
	}
}

// A worker of Compute Engine has the name of its instance, which its identity proves.
func TestFindInstance(t *testing.T) {
	t.Parallel()
	host, err := os.Hostname()
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "work")
	for provider, want := range map[string]string{"gce": "^" + host + "$", "static": "^" + host + "-[0-9a-f]{8}$"} {
		config := Config{Provider: provider, WorkDir: dir}

		release, err := config.findInstance()

		require.NoError(t, err)
		release()
		require.Regexp(t, want, config.InstanceID)
	}
}

func TestParseRuntimes(t *testing.T) {
	t.Parallel()

	runtimes, err := parseRuntimes([]string{"wan=python3 -u wan.py --half=1"})

	require.NoError(t, err)
	require.Equal(t, []host.Command{{Name: "wan", Command: []string{"python3", "-u", "wan.py", "--half=1"}}}, runtimes)
}

func TestTheirFault(t *testing.T) {
	t.Parallel()

	require.True(t, theirFault(&client.Error{Code: client.CodeInternal}))
	require.True(t, theirFault(&client.Error{Code: client.CodeUnavailable}))
	require.False(t, theirFault(&client.Error{Code: client.CodeLeaseLost}))
	require.False(t, theirFault(errLost))
}
