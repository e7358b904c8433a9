package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/reelay/reelay/internal/services"
	"golang.org/x/sync/errgroup"
)

// ownServices are the stores that `up` started itself.
type ownServices struct {
	postgres *services.Postgres
	redis    *services.Redis
	objects  *services.Objects
}

// startOwn starts the stores that cfg does not name, and names them. What it
// returns must be stopped even after an error.
func startOwn(ctx context.Context, cfg *config, data string) (*ownServices, error) {
	own := &ownServices{}
	var starting errgroup.Group
	if cfg.databaseURL == "" {
		starting.Go(func() (err error) {
			own.postgres, err = services.StartPostgres(ctx, services.PostgresConfig{Dir: filepath.Join(data, "postgres")})
			return err
		})
	}
	if cfg.redisURL == "" {
		starting.Go(func() (err error) {
			own.redis, err = services.StartRedis(ctx, services.RedisConfig{Dir: filepath.Join(data, "redis")})
			return err
		})
	}
	if cfg.bucket == "" {
		starting.Go(func() (err error) {
			own.objects, err = services.StartObjects(services.ObjectsConfig{Dir: filepath.Join(data, "objects"), Bucket: "reelay"})
			return err
		})
	}
	if err := starting.Wait(); err != nil {
		return own, err
	}
	if own.postgres != nil {
		cfg.databaseURL = own.postgres.DSN()
	}
	if own.redis != nil {
		cfg.redisURL = own.redis.URL()
	}
	if own.objects != nil {
		cfg.bucket, cfg.emulatorHost = own.objects.Bucket(), own.objects.Host()
	}
	return own, nil
}

// watch returns an error when one of the stores has ended by itself.
func (o *ownServices) watch(ctx context.Context) error {
	var postgres, redis, objects <-chan struct{}
	if o.postgres != nil {
		postgres = o.postgres.Done()
	}
	if o.redis != nil {
		redis = o.redis.Done()
	}
	if o.objects != nil {
		objects = o.objects.Done()
	}
	select {
	case <-ctx.Done():
		return nil
	case <-postgres:
		return fmt.Errorf("the private PostgreSQL ended: %w", o.postgres.Err())
	case <-redis:
		return fmt.Errorf("the private Redis ended: %w", o.redis.Err())
	case <-objects:
		return fmt.Errorf("the object store ended: %w", o.objects.Err())
	}
}

func (o *ownServices) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if o.objects != nil {
		o.objects.Stop(ctx)
	}
	if o.redis != nil {
		o.redis.Stop(ctx)
	}
	if o.postgres != nil {
		o.postgres.Stop(ctx)
	}
}
