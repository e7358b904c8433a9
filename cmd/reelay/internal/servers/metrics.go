package servers

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/reelay/reelay/adapters/metrics"
	"github.com/reelay/reelay/cmd/reelay/internal/front"
	"github.com/reelay/reelay/cmd/reelay/internal/settings"
	"github.com/reelay/reelay/internal/tracing"
)

// routeOf classes a request for its duration. Probes and scrapes have no class.
func routeOf(r *http.Request) metrics.Route {
	if front.IsStream(r) || r.Header.Get("Upgrade") != "" {
		return metrics.RouteStream
	}
	switch first, _, _ := strings.Cut(strings.TrimLeft(r.URL.Path, "/"), "/"); first {
	case "healthz", "readyz", "metrics":
		return ""
	case "graphql":
		return metrics.RouteGraphQL
	case "api", "comfy":
		return metrics.RouteREST
	case "v1":
		return metrics.RouteVideos
	case "objects":
		return metrics.RouteObjects
	case "hooks":
		return metrics.RouteHooks
	}
	return metrics.RouteConsole
}

// traced adopts the W3C traceparent of a request. If it has one, and this process exports spans, the
// request is a span of that trace. Other requests are none: workers call all the time.
func traced(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		parent := r.Header.Get(tracing.Header)
		route := routeOf(r)
		if parent == "" || route == metrics.RouteStream {
			next.ServeHTTP(w, r)
			return
		}
		ctx, end := tracing.Serve(tracing.Adopt(r.Context(), parent), r.Method+" "+string(route))
		defer end(false)
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// openHealth serves /healthz of a control process, which has no API, until ctx ends; its metrics, too, once the gate that it returns
// is opened. It returns nil if no address is configured.
func openHealth(ctx context.Context, cfg settings.Config) (*front.Gate, error) {
	if cfg.MetricsListen == "" {
		return nil, nil
	}
	listener, err := front.Listen(cfg.MetricsListen)
	if err != nil {
		return nil, err
	}
	gate := front.NewGate(ctx)
	server := &http.Server{Handler: gate, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: front.MaxHeader}
	context.AfterFunc(ctx, func() { server.Close() })
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			slog.ErrorContext(ctx, "control does not serve its metrics any more", "error", err)
		}
	}()
	slog.InfoContext(ctx, "control serves its metrics", "address", listener.Addr().String())
	return gate, nil
}

// metricsHandler serves the metrics of a control process, and /healthz.
func (s *stack) metricsHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("ok\n")) })
	mux.Handle("GET /metrics", s.scraped(s.metrics.Handler()))
	return mux
}
