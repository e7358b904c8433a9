package servers

import (
	"context"
	"strconv"
	"strings"
	"time"

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
	info, err := s.redis.Info(ctx).Result()
	if err != nil {
		return state
	}
	state.Version, state.UsedBytes, state.Clients, state.Replicas, state.BehindBytes = parseRedis(info)
	return state
}

// parseRedis reads what INFO says. What it does not say is nil or "".
func parseRedis(info string) (version string, used, clients, replicas, behind *int64) {
	fields := map[string]string{}
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	number := func(text string) *int64 {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil
		}
		return &n
	}
	replicas = number(fields["connected_slaves"])
	written := number(fields["master_repl_offset"])
	for i := int64(0); replicas != nil && written != nil && i < min(*replicas, 100); i++ {
		for part := range strings.SplitSeq(fields["slave"+strconv.FormatInt(i, 10)], ",") {
			text, ok := strings.CutPrefix(part, "offset=")
			if read := number(text); ok && read != nil {
				late := max(*written-*read, 0)
				if behind == nil || late > *behind {
					behind = &late
				}
			}
		}
	}
	return fields["redis_version"], number(fields["used_memory"]), number(fields["connected_clients"]), replicas, behind
}

// redisVersion returns the version of Redis, or "" if Redis does not say it.
func (s *stack) redisVersion(ctx context.Context) string {
	if state := s.redisState(ctx); state != nil {
		return state.Version
	}
	return ""
}
