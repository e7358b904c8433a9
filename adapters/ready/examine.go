package ready

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/reelay/reelay/features/doctor"
	"github.com/reelay/reelay/internal/redisurl"
)

// Examiner checks that Redis is set up as required: it may lose everything, but no others should
// read it, it should not evict keys, and another server should take the place of one that fails.
type Examiner struct {
	Address *redisurl.Address
	Client  redis.UniversalClient
	// Prefix is that of the Index.
	Prefix string
}

var _ doctor.Examiner = (*Examiner)(nil)

const (
	// scannedKeys bounds how many keys of a server are checked. More would keep a large Redis busy.
	scannedKeys = 10_000
	// examineTimeout bounds how long a Sentinel is waited for.
	examineTimeout = 2 * time.Second
)

// Examine implements doctor.Examiner.
func (x *Examiner) Examine(ctx context.Context) []doctor.Finding {
	answer := doctor.Advise("redis", "Redis answers.", "", "", "")
	servers, err := x.servers(ctx)
	if err != nil {
		answer = doctor.Advise("redis", answer.Holds, "It does not: "+err.Error()+".",
			"Nothing is lost: leases come from PostgreSQL, slower. Webhooks and periodic work wait, or run from control's own ticker.",
			"Start Redis, or see that the network leads there.")
		return append([]doctor.Finding{answer}, x.arrangement(ctx, nil)...)
	}
	answer.Holds = "Redis answers: " + describe(x.Address, servers) + "."
	found := []doctor.Finding{answer, version(servers), x.access(), x.rights(ctx), persistence(servers), eviction(servers), x.strangers(ctx)}
	return append(found, x.arrangement(ctx, servers)...)
}

// server is what INFO says of a server that takes writes.
type server struct {
	address string
	info    map[string]string
}

// servers reads INFO of all of them, ordered by address. It returns an error if one does not answer.
func (x *Examiner) servers(ctx context.Context) (servers []server, err error) {
	if err := x.Client.Ping(ctx).Err(); err != nil {
		return nil, err
	}
	err = redisurl.ForEachPrimary(ctx, x.Client, func(ctx context.Context, node *redis.Client) error {
		info, err := redisurl.Info(ctx, node)
		if isRefusal(err) { // see rights
			err = nil
		}
		servers = append(servers, server{node.Options().Addr, info})
		return err
	})
	slices.SortFunc(servers, func(a, b server) int { return strings.Compare(a.address, b.address) })
	return servers, err
}

// describe says how Redis is run.
func describe(address *redisurl.Address, servers []server) string {
	replicas := 0
	for _, each := range servers {
		n, _ := strconv.Atoi(each.info["connected_slaves"])
		replicas += n
	}
	what := "one server"
	switch address.Mode {
	case redisurl.Sentinel:
		what = "a primary with Sentinels"
	case redisurl.Cluster:
		what = fmt.Sprintf("a cluster of %d primaries", len(servers))
	}
	kept := "replicas"
	if replicas == 1 {
		kept = "replica"
	}
	return fmt.Sprintf("%s, %d %s, version %s", what, replicas, kept, servers[0].info["redis_version"])
}

// each returns what check says of the servers, or "".
func each(servers []server, check func(info map[string]string) string) string {
	var said []string
	for _, s := range servers {
		if text := check(s.info); text != "" && len(servers) > 1 {
			said = append(said, s.address+": "+text)
		} else if text != "" {
			said = append(said, text)
		}
	}
	return strings.Join(said, " ")
}

// oldestVersion is the oldest release of Redis that Reelay is made for.
const oldestVersion = 7

func version(servers []server) doctor.Finding {
	found := each(servers, func(info map[string]string) string {
		major, _, _ := strings.Cut(info["redis_version"], ".")
		if n, err := strconv.Atoi(major); err == nil && n < oldestVersion {
			return "It is version " + info["redis_version"] + "."
		}
		return ""
	})
	return doctor.Advise("redis-version", "Redis is version 7 or newer.", found,
		"The scripts of the ready index may fail there, and leases then come from PostgreSQL alone.", "Upgrade Redis.")
}

// access checks whether others can read the traffic.
func (x *Examiner) access() doctor.Finding {
	var open []string
	for _, address := range x.Address.Hosts {
		if isLocal(address) {
			continue
		}
		if !x.Address.HasPassword() {
			open = append(open, address+" asks for no password")
		}
		if !x.Address.TLS {
			open = append(open, address+" is reached without TLS")
		}
	}
	found := ""
	if len(open) > 0 {
		found = strings.Join(open, "; ") + "."
	}
	return doctor.Advise("redis-access", "A Redis on the network asks for a password and speaks TLS.", found,
		"Whoever reaches it can reorder and hide work, and read ids.",
		"Set requirepass or an ACL user, and TLS; then begin REDIS_URL with rediss and put user:password@ before the hosts.")
}

// isLocal reports whether an address is on this machine.
func isLocal(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil || host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

func persistence(servers []server) doctor.Finding {
	found := each(servers, func(info map[string]string) string {
		if info["aof_enabled"] == "0" {
			return "It does not."
		}
		return ""
	})
	return doctor.Advise("redis-persistence", "Redis keeps a log of its writes (AOF).", found,
		"After a restart the queues are empty: webhooks and starts wait until PostgreSQL has filled them again.",
		"Set appendonly yes.")
}

func eviction(servers []server) doctor.Finding {
	found := each(servers, func(info map[string]string) string {
		if policy, ok := info["maxmemory_policy"]; ok && policy != "noeviction" {
			return "Its maxmemory-policy is " + policy + "."
		}
		return ""
	})
	return doctor.Advise("redis-eviction", "Redis refuses writes when its memory is full, and evicts nothing.", found,
		"When memory is short, Redis removes keys of the queues without an error.",
		"Set maxmemory-policy noeviction, and give Redis enough memory.")
}

// strangers looks for keys of other software.
func (x *Examiner) strangers(ctx context.Context) doctor.Finding {
	f := doctor.Advise("redis-keys", "Nobody else uses this Redis database.", "", "", "")
	var kinds []string
	var count int
	err := redisurl.ForEachPrimary(ctx, x.Client, func(ctx context.Context, node *redis.Client) error {
		keys := node.Scan(ctx, 0, "*", 1000).Iterator()
		for seen := 0; seen < scannedKeys && keys.Next(ctx); seen++ {
			key := keys.Val()
			if strings.HasPrefix(key, keyPrefix(x.Prefix)) || strings.HasPrefix(key, "asynq:") {
				continue
			}
			count++
			kind, _, _ := strings.Cut(key, ":")
			if kind = clipped(kind); !slices.Contains(kinds, kind) && len(kinds) < 20 {
				kinds = append(kinds, kind)
			}
		}
		return keys.Err()
	})
	if err != nil && !isRefusal(err) {
		f.Level, f.Found = doctor.LevelUnknown, "Its keys could not be read: "+err.Error()+"."
		return f
	}
	if count == 0 {
		return f
	}
	f = doctor.Advise(f.Check, f.Holds, fmt.Sprintf("%d keys are not Reelay's. They begin:", count),
		"What others do there can evict, flush or slow down ours, and FLUSHALL of ours loses theirs.",
		"Give Reelay a Redis of its own.")
	f.IDs, f.Count = kinds, count
	return f
}

// clipped shortens a key of unknown content for display.
func clipped(key string) string {
	if runes := []rune(strings.ToValidUTF8(key, "\uFFFD")); len(runes) > 40 {
		return string(runes[:40]) + "…"
	}
	return strings.ToValidUTF8(key, "\uFFFD")
}
