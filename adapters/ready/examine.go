package ready

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/reelay/reelay/features/doctor"
)

var _ doctor.Examiner = (*Index)(nil)

// scannedKeys bounds how many keys are checked. More would keep a large Redis busy.
const scannedKeys = 10_000

// Examine checks that Redis is set up as required: it may lose everything, but nobody else
// should read it, and it should not evict keys.
func (x *Index) Examine(ctx context.Context) []doctor.Finding {
	answer := doctor.Advise("redis", "Redis answers.", "", "", "")
	if err := x.client.Ping(ctx).Err(); err != nil {
		return []doctor.Finding{doctor.Advise("redis", answer.Holds, "It does not: "+err.Error()+".",
			"Nothing is lost: leases come from PostgreSQL, slower. Webhooks and periodic work wait, or run from control's own ticker.",
			"Start Redis, or see that the network leads there.")}
	}
	return []doctor.Finding{answer, x.access(), x.persistence(ctx), x.eviction(ctx), x.strangers(ctx)}
}

// access checks whether others can read the traffic.
func (x *Index) access() doctor.Finding {
	addresses, password, encrypted := reached(x.client)
	var open []string
	for _, address := range addresses {
		if isLocal(address) {
			continue
		}
		if password == "" {
			open = append(open, address+" asks for no password")
		}
		if encrypted == nil {
			open = append(open, address+" is reached without TLS")
		}
	}
	found := ""
	if len(open) > 0 {
		found = strings.Join(open, "; ") + "."
	}
	return doctor.Advise("redis-access", "A Redis on the network asks for a password and speaks TLS.", found,
		"Whoever reaches it can reorder and hide work, and read ids.",
		"Set requirepass or an ACL user, and TLS; then REDIS_URL=rediss://user:password@host:port.")
}

// reached returns the addresses that a client uses, and how it connects.
func reached(client redis.UniversalClient) (addresses []string, password string, encrypted *tls.Config) {
	switch c := client.(type) {
	case *redis.Client:
		o := c.Options()
		return []string{o.Addr}, o.Password, o.TLSConfig
	case *redis.ClusterClient:
		o := c.Options()
		return o.Addrs, o.Password, o.TLSConfig
	}
	return nil, "", nil
}

// isLocal reports whether an address is on this machine. The address of a Sentinel client is
// not.
func isLocal(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil || host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

func (x *Index) persistence(ctx context.Context) doctor.Finding {
	const holds = "Redis keeps a log of its writes (AOF)."
	found := ""
	info, err := x.client.Info(ctx, "persistence").Result()
	if err == nil && strings.Contains(info, "aof_enabled:0") {
		found = "It does not."
	}
	return doctor.Advise("redis-persistence", holds, found,
		"After a restart the queues are empty: webhooks and starts wait until PostgreSQL has filled them again.",
		"Set appendonly yes.")
}

func (x *Index) eviction(ctx context.Context) doctor.Finding {
	const holds = "Redis refuses writes when its memory is full, and evicts nothing."
	found := ""
	info, err := x.client.Info(ctx, "memory").Result()
	if err == nil {
		for line := range strings.Lines(info) {
			if policy, ok := strings.CutPrefix(strings.TrimSpace(line), "maxmemory_policy:"); ok && policy != "noeviction" {
				found = "Its maxmemory-policy is " + policy + "."
			}
		}
	}
	return doctor.Advise("redis-eviction", holds, found,
		"When memory is short, Redis removes keys of the queues without an error.",
		"Set maxmemory-policy noeviction, and give Redis enough memory.")
}

// strangers looks for keys of other software.
func (x *Index) strangers(ctx context.Context) doctor.Finding {
	f := doctor.Advise("redis-keys", "Nobody else uses this Redis database.", "", "", "")
	var kinds []string
	var count int
	keys := x.client.Scan(ctx, 0, "*", 1000).Iterator()
	for seen := 0; seen < scannedKeys && keys.Next(ctx); seen++ {
		key := keys.Val()
		if strings.HasPrefix(key, x.prefix) || strings.HasPrefix(key, "asynq:") {
			continue
		}
		count++
		kind, _, _ := strings.Cut(key, ":")
		if kind = clipped(kind); !slices.Contains(kinds, kind) && len(kinds) < 20 {
			kinds = append(kinds, kind)
		}
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
