package tasks

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// ReconcileEvery is how often to call [Publisher.Reconcile].
	ReconcileEvery = 30 * time.Second
	// reconcileBatch is how many active messages of a queue one pass examines. Stuck messages
	// are the oldest.
	reconcileBatch = 100
	// abandonedAfter is how long after its lease expired a message is requeued that asynq
	// itself did not requeue. It exceeds the difference between clocks.
	abandonedAfter = 5 * time.Minute
)

// reconcileScript requeues active messages that no process works on. asynq itself finds
// expired messages through its list of leases. A message without a lease, because Redis lost
// it or the worker died at the wrong moment, would stay active for ever, and asynq would
// refuse its id.
//
// KEYS: the queue's lists of active and pending messages, and its leases. ARGV: the prefix of
// its messages' keys, how many to examine, and how many seconds after its end an expired lease
// counts as none. Returns how many messages were requeued, or dropped because their content is
// gone. The writes that need memory come first: a full Redis refuses them, and nothing has
// changed.
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

// Reconcile requeues stuck messages, and returns how many there were. Handlers may see any message
// twice.
func (p *Publisher) Reconcile(ctx context.Context) (int, error) {
	total := 0
	for queue := range queues() {
		key := "asynq:{" + queue + "}:"
		back, err := reconcileScript.Run(ctx, p.sender.redis, []string{key + "active", key + "pending", key + "lease"},
			key+"t:", reconcileBatch, int(abandonedAfter.Seconds())).Int()
		if err != nil {
			return total, fmt.Errorf("reconcile queue %s: %w", queue, err)
		}
		total += back
		if back > 0 {
			slog.WarnContext(ctx, "stuck messages are handled again", "queue", queue, "messages", back)
		}
	}
	return total, nil
}
