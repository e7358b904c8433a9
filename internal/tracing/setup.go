package tracing

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Configured reports whether the environment names an OTLP endpoint and does not switch tracing
// off.
func Configured() bool {
	if os.Getenv("OTEL_SDK_DISABLED") == "true" || os.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		return false
	}
	return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// farewell is how long stop waits for a collector.
const farewell = 2 * time.Second

// SetUp starts tracing as the variables OTEL_EXPORTER_OTLP_*, OTEL_TRACES_SAMPLER,
// OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say. It does nothing unless Configured. Spans are
// sent in the background; while the collector is away they are dropped, which is
// logged once. stop sends what is left.
func SetUp(ctx context.Context, service, version string) (stop func(), err error) {
	if !Configured() {
		return func() {}, nil
	}
	if protocol := os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL"); protocol != "" && protocol != "http/protobuf" {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q: only http/protobuf is supported", protocol)
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("set up tracing: %w", err)
	}
	is, err := resource.New(ctx, resource.WithAttributes(String("service.name", service), String("service.version", version)),
		resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil {
		return nil, fmt.Errorf("set up tracing: OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	var once sync.Once
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		once.Do(func() { slog.Warn("spans cannot be sent; this is logged once", "error", err) })
	}))
	return Use(sdk.WithBatcher(exporter), sdk.WithResource(is)), nil
}

// Use starts tracing with a provider of these options. stop ends it.
func Use(options ...sdk.TracerProviderOption) (stop func()) {
	provider := sdk.NewTracerProvider(append(options, sdk.WithIDGenerator(ids{}))...)
	t := provider.Tracer("github.com/reelay/reelay")
	tracer.Store(&t)
	return func() {
		tracer.CompareAndSwap(&t, nil)
		ctx, cancel := context.WithTimeout(context.Background(), farewell)
		defer cancel()
		_ = provider.Shutdown(ctx) // what cannot be sent is lost, and was logged
	}
}

// chosenID is the key of the id of the next span in a context.
type chosenID struct{}

// ids makes random ids, except for spans whose id is chosen.
type ids struct{}

// NewIDs implements sdk.IDGenerator.
func (g ids) NewIDs(ctx context.Context) (id trace.TraceID, span trace.SpanID) {
	_, _ = rand.Read(id[:]) // it never fails
	return id, g.NewSpanID(ctx, id)
}

// NewSpanID implements sdk.IDGenerator.
func (ids) NewSpanID(ctx context.Context, _ trace.TraceID) (id trace.SpanID) {
	if chosen, ok := ctx.Value(chosenID{}).(trace.SpanID); ok {
		return chosen
	}
	_, _ = rand.Read(id[:])
	return id
}
