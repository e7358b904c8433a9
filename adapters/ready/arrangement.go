package ready

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/reelay/reelay/features/doctor"
	"github.com/reelay/reelay/internal/redisurl"
)

// arrangement checks what takes the place of a server that fails. servers are nil if Redis does
// not answer.
func (x *Examiner) arrangement(ctx context.Context, servers []server) []doctor.Finding {
	switch x.Address.Mode {
	case redisurl.Sentinel:
		return []doctor.Finding{x.sentinels(ctx), replicas(servers)}
	case redisurl.Cluster:
		return []doctor.Finding{x.cluster(ctx), replicas(servers)}
	}
	return nil
}

// replicas checks that each primary has a replica.
func replicas(servers []server) doctor.Finding {
	found := each(servers, func(info map[string]string) string {
		if info["connected_slaves"] == "0" {
			return "It has no replica."
		}
		return ""
	})
	return doctor.Advise("redis-replicas", "Each primary has a replica that is connected.", found,
		"If the primary fails, none takes its place, and leases come from PostgreSQL until it is back.",
		"Start a replica, and see that it reaches the primary.")
}

// sentinels asks each Sentinel of REDIS_URL whether it knows the primary, and could replace it.
func (x *Examiner) sentinels(ctx context.Context) doctor.Finding {
	var wrong []string
	primaries := map[string]bool{}
	for _, host := range x.Address.Hosts {
		primary, err := x.askSentinel(ctx, host)
		if err != nil {
			wrong = append(wrong, host+": "+err.Error())
			continue
		}
		primaries[primary] = true
	}
	if len(primaries) > 1 {
		wrong = append(wrong, "they name different primaries")
	}
	if len(x.Address.Hosts) < 3 {
		wrong = append(wrong, fmt.Sprintf("REDIS_URL names %d of them", len(x.Address.Hosts)))
	}
	found := ""
	if len(wrong) > 0 {
		found = strings.Join(wrong, "; ") + "."
	}
	return doctor.Advise("redis-sentinels", "Three or more Sentinels agree on the primary, and can replace it.", found,
		"If the primary fails, perhaps no replica takes its place, and leases come from PostgreSQL until it is back.",
		"Run three Sentinels on different machines, name all of them in REDIS_URL, and see that they reach each other and the primary.")
}

// askSentinel returns the address of the primary. It returns an error if the Sentinel does not
// know the primary or could not replace it.
func (x *Examiner) askSentinel(ctx context.Context, host string) (string, error) {
	sentinel := x.Address.OpenSentinel(host, examineTimeout)
	defer sentinel.Close()
	primary, err := sentinel.GetMasterAddrByName(ctx, x.Address.Primary).Result()
	if err == redis.Nil {
		return "", fmt.Errorf("it watches no primary named %s", x.Address.Primary)
	}
	if err != nil {
		return "", err
	}
	return strings.Join(primary, ":"), sentinel.CkQuorum(ctx, x.Address.Primary).Err()
}

// cluster checks that the cluster serves all slots.
func (x *Examiner) cluster(ctx context.Context) doctor.Finding {
	text, err := x.Client.ClusterInfo(ctx).Result()
	state := redisurl.ReadInfo(text)
	found := ""
	switch {
	case err != nil && !isRefusal(err):
		found = "Its state is unknown: " + err.Error() + "."
	case err == nil && (state["cluster_state"] != "ok" || state["cluster_slots_ok"] != "16384"):
		found = fmt.Sprintf("Its state is %s: %s of 16384 slots are served.", state["cluster_state"], state["cluster_slots_ok"])
	}
	return doctor.Advise("redis-cluster", "The cluster serves all slots.", found,
		"The ready index and each lane of asynq are in one slot each. Those whose slot is not served work from PostgreSQL.",
		"Run redis-cli --cluster check with the address of a node, and start the nodes that are missing.")
}
