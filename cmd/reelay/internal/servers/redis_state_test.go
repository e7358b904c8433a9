package servers

import (
	"testing"

	"github.com/reelay/reelay/internal/redisurl"
	"github.com/reelay/reelay/web/console/system"
	"github.com/stretchr/testify/require"
)

func TestAddRedis(t *testing.T) {
	t.Parallel()

	var state system.Redis
	addRedis(&state, redisurl.ReadInfo("# Server\r\nredis_version:7.0.15\r\n# Clients\r\nconnected_clients:12\r\n"+
		"used_memory:1048576\r\nrole:master\r\nconnected_slaves:2\r\n"+
		"slave0:ip=10.0.0.1,port=6379,state=online,offset=90,lag=0\r\n"+
		"slave1:ip=10.0.0.2,port=6379,state=online,offset=40,lag=1\r\nmaster_repl_offset:100\r\n"))
	require.Equal(t, "7.0.15", state.Version)
	require.Equal(t, []int64{1048576, 12, 2, 60}, []int64{*state.UsedBytes, *state.Clients, *state.Replicas, *state.BehindBytes})

	addRedis(&state, redisurl.ReadInfo("redis_version:7.0.15\nconnected_clients:3\nused_memory:24\nconnected_slaves:0\n"))
	require.Equal(t, []int64{1048600, 15, 2, 60}, []int64{*state.UsedBytes, *state.Clients, *state.Replicas, *state.BehindBytes},
		"of a cluster, the sums")

	for _, odd := range []string{"", "nonsense", "connected_slaves:-5\nmaster_repl_offset:x",
		"connected_slaves:9223372036854775807\nmaster_repl_offset:1\nslave0:offset=\nslave1:,,,"} {
		var state system.Redis
		addRedis(&state, redisurl.ReadInfo(odd))
		require.Empty(t, state.Version)
		require.Nil(t, state.BehindBytes, odd)
	}
}
