package agent

import (
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
		"StrangeLog":       {[]string{"--key=k", "--log=xml"}, `--log is "xml": it must be text or json`},
		"NamelessRuntime":  {[]string{"--key=k", "--runtime=python3 wan.py"}, "it must be name=command"},
		"EmptyRegion":      {[]string{"--key=k", "--region="}, "the region is empty"},
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
