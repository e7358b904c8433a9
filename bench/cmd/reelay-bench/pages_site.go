package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/internal/localstack"
	"github.com/reelay/reelay/internal/seal"
	"github.com/reelay/reelay/models/postgres"
)

// pagesSite is an API process with stores of its own, without control and with no objects.
type pagesSite struct {
	data, reelay  string
	postgres      *localstack.Postgres
	redis         *localstack.Redis
	api           *localstack.Child
	objects       *http.Server
	endpoint, key string
}

func (s *pagesSite) startStores(ctx context.Context) (err error) {
	// Without waits for the disk: an incomplete history is created again.
	if s.postgres, err = localstack.StartPostgres(ctx, localstack.PostgresConfig{Dir: filepath.Join(s.data, "postgres"),
		Test: true}); err != nil {
		return err
	}
	s.redis, err = localstack.StartRedis(ctx, localstack.RedisConfig{Dir: filepath.Join(s.data, "redis")})
	return err
}

// serve makes a key and starts the API. It returns when the API is ready.
func (s *pagesSite) serve(ctx context.Context) error {
	db, done, err := postgres.Open(ctx, s.postgres.DSN(), 1)
	if err != nil {
		return err
	}
	_, s.key, err = (&auth.Keys{DB: db}).Bootstrap(ctx, "house", "bench", true)
	done()
	if err != nil {
		return err
	}
	secrets := filepath.Join(s.data, "secrets.json")
	if _, err := seal.LoadOrCreate(secrets); err != nil {
		return err
	}
	objects, err := s.serveNoObjects()
	if err != nil {
		return err
	}
	address, err := freeAddress()
	if err != nil {
		return err
	}
	s.endpoint = "http://" + address
	s.api, err = localstack.StartChild(localstack.ChildConfig{
		Name: "reelay api", Path: s.reelay, Args: []string{"api"}, Log: filepath.Join(s.data, "api.log"), Grace: 30 * time.Second,
		Env: append(os.Environ(), "REELAY_LISTEN="+address, "DATABASE_URL="+s.postgres.DSN(), "REDIS_URL="+s.redis.URL(),
			"GCS_BUCKET=bench", "STORAGE_EMULATOR_HOST="+objects, "REELAY_SECRETS_FILE="+secrets),
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, stackStart, fmt.Errorf("the API was not ready within %v", stackStart))
	defer cancel()
	for {
		if got, err := http.Get(s.endpoint + "/readyz"); err == nil {
			got.Body.Close()
			if got.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-s.api.Done():
			return s.api.Err()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// serveNoObjects serves an object store whose bucket is empty, and returns its address.
func (s *pagesSite) serveNoObjects() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("serve an empty object store: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /storage/v1/b/bench", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind": "storage#bucket", "id": "bench", "name": "bench"}`))
	})
	s.objects = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.objects.Serve(listener) }()
	return "http://" + listener.Addr().String(), nil
}

// freeAddress returns an address of this machine on which nothing listens.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return listener.Addr().String(), listener.Close()
}

// graphQL returns the request of a query.
func (s *pagesSite) graphQL(ctx context.Context, query string) (*http.Request, error) {
	body, err := json.Marshal(map[string]string{"query": query})
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.endpoint+"/graphql", bytes.NewReader(body))
	if err == nil {
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+s.key)
	}
	return r, err
}

func (s *pagesSite) stop(ctx context.Context) error {
	var failed []error
	if s.api != nil {
		failed = append(failed, s.api.Stop(ctx))
	}
	if s.objects != nil {
		failed = append(failed, s.objects.Close())
	}
	if s.redis != nil {
		failed = append(failed, s.redis.Stop(ctx))
	}
	if s.postgres != nil {
		failed = append(failed, s.postgres.Stop(ctx))
	}
	return errors.Join(failed...)
}
