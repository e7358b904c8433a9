package servers

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseRedis(t *testing.T) {
	t.Parallel()

	version, used, clients, replicas, behind := parseRedis("# Server\r\nredis_version:7.0.15\r\n# Clients\r\nconnected_clients:12\r\nused_memory:1048576\r\nrole:master\r\nconnected_slaves:2\r\n" +
		"slave0:ip=10.0.0.1,port=6379,state=online,offset=90,lag=0\r\nslave1:ip=10.0.0.2,port=6379,state=online,offset=40,lag=1\r\nmaster_repl_offset:100\r\n")
	require.Equal(t, "7.0.15", version)
	require.Equal(t, []int64{1048576, 12, 2, 60}, []int64{*used, *clients, *replicas, *behind})

	for _, odd := range []string{"", "nonsense", "connected_slaves:-5\nmaster_repl_offset:x",
		"connected_slaves:9223372036854775807\nmaster_repl_offset:1\nslave0:offset=\nslave1:,,,"} {
		version, _, _, _, behind := parseRedis(odd)
		require.Empty(t, version)
		require.Nil(t, behind, odd)
	}
}
