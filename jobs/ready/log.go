package ready

import (
	"context"
	"fmt"
	"log/slog"
)

// redisLog sends go-redis's log to slog at the debug level: go-redis logs each lost
// connection, which the failed calls report as well.
type redisLog struct{}

func (redisLog) Printf(ctx context.Context, format string, args ...any) {
	slog.DebugContext(ctx, "redis: "+fmt.Sprintf(format, args...))
}
