package redisurl

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Info returns what INFO says of a server, by name.
func Info(ctx context.Context, node *redis.Client) (map[string]string, error) {
	text, err := node.Info(ctx).Result()
	return ReadInfo(text), err
}

// ReadInfo reads lines of the form "name:value".
func ReadInfo(text string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}
