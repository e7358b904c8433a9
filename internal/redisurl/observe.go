package redisurl

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// observer is a hook that measures calls.
type observer func(result string, took time.Duration)

// DialHook implements redis.Hook.
func (o observer) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (o observer) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return o.measure(ctx, func(ctx context.Context) error { return next(ctx, cmd) })
	}
}

// ProcessPipelineHook implements redis.Hook.
func (o observer) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return o.measure(ctx, func(ctx context.Context) error { return next(ctx, cmds) })
	}
}

// insideCall marks the context of a call: what go-redis sends for it on a new connection is a part of it.
type insideCall struct{}

func (o observer) measure(ctx context.Context, call func(context.Context) error) error {
	if ctx.Value(insideCall{}) != nil {
		return call(ctx)
	}
	begun := time.Now()
	err := call(context.WithValue(ctx, insideCall{}, true))
	o(resultOf(err), time.Since(begun))
	return err
}

// resultOf classifies the error of a call. An unknown script is none: it is sent next.
func resultOf(err error) string {
	var refusal redis.Error
	switch {
	case err == nil, errors.Is(err, redis.Nil), redis.HasErrorPrefix(err, "NOSCRIPT"):
		return "ok"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case errors.As(err, &refusal):
		return "refused"
	}
	return "error"
}
