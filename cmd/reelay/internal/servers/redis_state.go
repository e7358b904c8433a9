package servers

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/reelay/reelay/internal/redisurl"
	"github.com/reelay/reelay/web/console/system"
)

// redisTimeout bounds how long the system page waits for Redis.
const redisTimeout = time.Second

// redisState describes Redis, or returns nil if it does not answer.
func (s *stack) redisState(ctx context.Context) *system.Redis {
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	began := time.Now()
	if err := s.redis.Ping(ctx).Err(); err != nil {
		return nil
	}
	state := &system.Redis{Ping: time.Since(began)}
	primaries := 0
	_ = redisurl.ForEachPrimary(ctx, s.redis, func(ctx context.Context, node *redis.Client) error { // what is unknown is left out
		info, err := redisurl.Info(ctx, node)
		if err == nil {
			primaries++
			addRedis(state, info)
		}
		return err
	})
	switch s.redisAt.Mode {
	case redisurl.Server:
		state.Kind = "One server"
	case redisurl.Sentinel:
		state.Kind = "A primary with Sentinels"
	case redisurl.Cluster:
		state.Kind = fmt.Sprintf("A cluster of %d primaries", primaries)
	}
	return state
}

// addRedis adds what INFO says of a primary to the state of all. What it does not say stays nil or "".
func addRedis(state *system.Redis, info map[string]string) {
	number := func(text string) *int64 {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil
		}
		return &n
	}
	add := func(sum **int64, name string) *int64 {
		n := number(info[name])
		if n != nil && *sum != nil {
			**sum += *n
		} else if n != nil {
			*sum = new(*n)
		}
		return n
	}
	state.Version = info["redis_version"]
	add(&state.UsedBytes, "used_memory")
	add(&state.Clients, "connected_clients")
	replicas, written := add(&state.Replicas, "connected_slaves"), number(info["master_repl_offset"])
	for i := int64(0); replicas != nil && written != nil && i < min(*replicas, 100); i++ {
		for part := range strings.SplitSeq(info["slave"+strconv.FormatInt(i, 10)], ",") {
			text, ok := strings.CutPrefix(part, "offset=")
			if read := number(text); ok && read != nil {
				late := max(*written-*read, 0)
				if state.BehindBytes == nil || late > *state.BehindBytes {
					state.BehindBytes = &late
				}
			}
		}
	}
}

// redisVersion returns the version of Redis, or "" if Redis does not say it.
func (s *stack) redisVersion(ctx context.Context) string {
	if state := s.redisState(ctx); state != nil {
		return state.Version
	}
	return ""
}
