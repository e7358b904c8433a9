package servers

import (
	"context"
	"net"
	"path/filepath"
	"time"

	"github.com/reelay/reelay/adapters/blob"
	"github.com/reelay/reelay/cmd/reelay/internal/settings"
	"github.com/reelay/reelay/internal/localstack"
	"golang.org/x/sync/errgroup"
)

// ownServices are the stores that `up` started itself.
type ownServices struct {
	postgres *localstack.Postgres
	redis    *localstack.Redis
	store    *store
	s3       *localstack.S3 // in place of store
}

// startOwn starts the stores that cfg does not name, and sets their addresses in cfg. The
// result must be stopped even after an error.
func startOwn(ctx context.Context, cfg *settings.Config, data string, s3 bool) (*ownServices, error) {
	own := &ownServices{}
	var starting errgroup.Group
	if cfg.DatabaseURL == "" {
		starting.Go(func() (err error) {
			own.postgres, err = localstack.StartPostgres(ctx, localstack.PostgresConfig{Dir: filepath.Join(data, "postgres")})
			return err
		})
	}
	if cfg.RedisURL == "" {
		starting.Go(func() (err error) {
			own.redis, err = localstack.StartRedis(ctx, localstack.RedisConfig{Dir: filepath.Join(data, "redis")})
			return err
		})
	}
	switch {
	case cfg.Objects.Named():
	case s3:
		starting.Go(func() (err error) {
			own.s3, err = localstack.StartS3(ctx, localstack.S3Config{Dir: filepath.Join(data, "s3"), Bucket: storeBucket})
			return err
		})
	default:
		starting.Go(func() (err error) {
			own.store, err = startStore(ctx, filepath.Join(data, "objects"))
			return err
		})
	}
	if err := starting.Wait(); err != nil {
		return own, err
	}
	if own.postgres != nil {
		cfg.DatabaseURL = own.postgres.DSN()
	}
	if own.redis != nil {
		cfg.RedisURL = own.redis.URL()
	}
	if own.store != nil {
		cfg.Objects = settings.Objects{Store: blob.KindGoogle + "://" + storeBucket, EmulatorHost: own.store.host()}
	}
	if own.s3 != nil {
		place := blob.Place{Kind: blob.KindS3, Bucket: own.s3.Bucket(), Endpoint: own.s3.Endpoint(), Region: own.s3.Region(),
			Addressing: "path", Links: ownS3Links(cfg)}
		cfg.Objects = settings.Objects{Store: place.String()}
		cfg.Objects.AccessKey, cfg.Objects.SecretKey = own.s3.Keys()
	}
	return own, cfg.Check()
}

// ownS3Links says where links to our own S3 server lead. Only callers on this machine reach it.
func ownS3Links(c *settings.Config) blob.Links {
	host, _, err := net.SplitHostPort(c.Listen)
	address := net.ParseIP(host)
	if err == nil && (host == "localhost" || address != nil && address.IsLoopback()) && c.PublicURL == "" && !c.TLS.Used() {
		return blob.LinksAuto
	}
	return blob.LinksAPI
}

// list adds them to the roster.
func (o *ownServices) list(r *roster) {
	if o.postgres != nil {
		r.set("postgres", o.postgres.Pid())
	}
	if o.redis != nil {
		r.set("redis", o.redis.Pid())
	}
	if o.store != nil {
		r.set("store", o.store.Pid())
	}
	if o.s3 != nil {
		r.set("store", o.s3.Pid())
	}
}

// keep restarts stores that end, with the same data and address, until ctx ends. It
// returns an error if a restart cannot succeed.
func (o *ownServices) keep(ctx context.Context, r *roster) error {
	group, ctx := errgroup.WithContext(ctx)
	keep := func(name string, child *localstack.Child, restart func(context.Context) (*localstack.Child, error)) {
		keeper := localstack.Keeper{Name: name, Permanent: localstack.Permanent, Start: func(ctx context.Context) (*localstack.Child, error) {
			again, err := restart(ctx)
			if err == nil {
				r.set(name, again.Pid())
			}
			return again, err
		}}
		group.Go(func() error { return keeper.Run(ctx, child) })
	}
	if o.postgres != nil {
		keep("postgres", o.postgres.Child, o.postgres.Restart)
	}
	if o.redis != nil {
		keep("redis", o.redis.Child, o.redis.Restart)
	}
	if o.store != nil {
		keep("store", o.store.Child, o.store.restart)
	}
	if o.s3 != nil {
		keep("store", o.s3.Child, o.s3.Restart)
	}
	return group.Wait()
}

func (o *ownServices) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if o.store != nil {
		o.store.stop(ctx)
	}
	if o.s3 != nil {
		o.s3.Stop(ctx)
	}
	if o.redis != nil {
		o.redis.Stop(ctx)
	}
	if o.postgres != nil {
		o.postgres.Stop(ctx)
	}
}
