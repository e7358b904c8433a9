package tasks

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// reconcileEvery is how often stuck messages are looked for.
	reconcileEvery = 30 * time.Second
	// reconcileBatch is how many active messages of a queue one look may cover.
	// Those that are stuck are the oldest.
	reconcileBatch = 100
	// abandonedAfter is how long after its lease's end a message is taken back
	// that asynq itself did not: more than clocks differ.
	abandonedAfter = 5 * time.Minute
)

// reconcileScript puts messages back that are active and that nobody works on.
// asynq takes back those whose lease ran out, by the list of leases. One that has
// no lease at all, because Redis lost it or its worker died in the wrong moment,
// it would leave active for ever, and refuse its id.
//
// KEYS: the queue's lists of active and pending messages, its leases.
// ARGV: the beginning of its messages' keys, how many to look at, seconds after
// which a lease that ran out is as good as none.
// Returns how many were put back, or, for want of their content, dropped. What
// needs memory comes first: a Redis that is full refuses it, and nothing changed.
var reconcileScript = redis.NewScript(`
local back = 0
local now = tonumber(redis.call("TIME")[1])
for _, id in ipairs(redis.call("LRANGE", KEYS[1], -tonumber(ARGV[2]), -1)) do
	local lease = redis.call("ZSCORE", KEYS[3], id)
	if not lease or tonumber(lease) < now - tonumber(ARGV[3]) then
		if redis.call("HEXISTS", ARGV[1] .. id, "msg") == 1 then
			redis.call("HSET", ARGV[1] .. id, "state", "pending")
			redis.call("RPUSH", KEYS[2], id)
		else
			redis.call("DEL", ARGV[1] .. id)
		end
		redis.call("LREM", KEYS[1], 0, id)
		redis.call("ZREM", KEYS[3], id)
		back = back + 1
	end
end
return back`)

// reconcile requeues stuck messages. Handlers may see a message twice anyway.
func (s sender) reconcile(ctx context.Context) error {
	for queue := range queues() {
		key := "asynq:{" + queue + "}:"
		back, err := reconcileScript.Run(ctx, s.redis, []string{key + "active", key + "pending", key + "lease"},
			key+"t:", reconcileBatch, int(abandonedAfter.Seconds())).Int()
		if err != nil {
			return fmt.Errorf("reconcile queue %s: %w", queue, err)
		}
		if back > 0 {
			slog.WarnContext(ctx, "stuck messages are handled again", "queue", queue, "messages", back)
		}
	}
	return nil
}
