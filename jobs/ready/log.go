package ready

import (
	"context"
	"fmt"
	"log/slog"
)

// redisLog has go-redis log to slog. It writes of each connection that it loses,
// which the calls that needed it tell us as well.
type redisLog struct{}

func (redisLog) Printf(ctx context.Context, format string, args ...any) {
	slog.DebugContext(ctx, "redis: "+fmt.Sprintf(format, args...))
}
