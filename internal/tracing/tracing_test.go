package tracing

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

const (
	sampled = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	quiet   = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
)

// The tests share the process's tracer, so they are not parallel.

func TestOff(t *testing.T) {
	require.False(t, Enabled())
	stop, err := SetUp(t.Context(), "test", "1")
	require.NoError(t, err)
	defer stop()
	require.False(t, Enabled(), "no endpoint is configured")
	ctx, end := Start(t.Context(), "a", String("k", "v"))
	end(errors.New("e"))
	Record(Span{Parent: sampled, Name: "b"})

	require.Equal(t, t.Context(), ctx)
	require.Empty(t, Parent(ctx))
	require.Equal(t, sampled, Parent(Adopt(ctx, sampled)), "a caller's trace is kept for those that export spans")
	for _, bad := range []string{"", "x", "00-00000000000000000000000000000000-00f067aa0ba902b7-01", sampled[:20], sampled + "\r\nX: y"} {
		require.Empty(t, Parent(Adopt(t.Context(), bad)), "%q", bad)
		require.Empty(t, TraceID(bad), "%q", bad)
		require.Empty(t, ForAttempt(bad, "job", 1), "%q", bad)
	}
	require.Zero(t, testing.AllocsPerRun(100, func() { _, end := Start(ctx, "a"); end(nil) }), "tracing that is off costs nothing")
}

func TestRecord(t *testing.T) {
	kept := tracetest.NewInMemoryExporter()
	defer Use(sdk.WithSyncer(kept))()
	from := time.Now()

	agent := ForAttempt(sampled, "job_1", 2)
	_, end := Start(Adopt(t.Context(), agent), "rendering")
	end(errors.New("a secret"))
	Record(Span{Parent: sampled, Name: "attempt", From: from, To: from.Add(time.Hour), ID: AttemptID("job_1", 2), Link: AttemptID("job_1", 1)})
	Record(Span{Parent: quiet, Name: "attempt"})
	Record(Span{Name: "attempt"})

	spans := kept.GetSpans()
	require.Len(t, spans, 2)
	rendering, attempt := spans[0], spans[1]
	require.Equal(t, attempt.SpanContext.SpanID(), rendering.Parent.SpanID(), "the agent's spans have the attempt as their parent")
	require.Equal(t, "00f067aa0ba902b7", attempt.Parent.SpanID().String())
	require.Equal(t, time.Hour, attempt.EndTime.Sub(attempt.StartTime))
	require.Equal(t, AttemptID("job_1", 1), attempt.Links[0].SpanContext.SpanID())
	require.Empty(t, rendering.Status.Description, "an error can quote what a customer wrote")
	require.Equal(t, "4bf92f3577b34da6a3ce929d0e0e4736", SampledID(sampled))
	require.Empty(t, SampledID(quiet))
}

func TestSetUp(t *testing.T) {
	for name, env := range map[string]string{"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "none"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
			t.Setenv(name, env)
			require.False(t, Configured())
		})
	}
	t.Run("RefusesAnotherProtocol", func(t *testing.T) {
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
		t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
		_, err := SetUp(t.Context(), "test", "1")
		require.ErrorContains(t, err, "http/protobuf")
	})
	t.Run("DoesNotWaitForACollectorThatIsAway", func(t *testing.T) {
		closed, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		closed.Close()
		requirePassable(t, "http://"+closed.Addr().String())
	})
	t.Run("DoesNotWaitForACollectorThatHangs", func(t *testing.T) {
		over := make(chan struct{})
		server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }))
		defer server.Close()
		defer close(over)
		requirePassable(t, server.URL)
	})
}

// requirePassable requires that spans for an endpoint cost their caller nothing.
func requirePassable(t *testing.T, endpoint string) {
	t.Helper()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
	stop, err := SetUp(context.WithoutCancel(t.Context()), "test", "1")
	require.NoError(t, err)
	require.True(t, Enabled())
	begun := time.Now()
	for range 10_000 { // more than the queue holds
		_, end := Start(t.Context(), "a")
		end(nil)
	}
	stop()
	require.Less(t, time.Since(begun), 30*time.Second)
	require.False(t, Enabled())
}
