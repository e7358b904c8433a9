// Package tracing follows a job from its submit to its webhook as one OpenTelemetry trace.
//
// The job's row keeps a W3C traceparent, and its lease hands one on, so that processes that never
// call each other, days apart, add to the same trace. Tracing is off, and costs next to
// nothing, unless an OTLP endpoint is configured. Attributes are ids, names and numbers: never a
// prompt, and nothing secret.
package tracing

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// tracer is nil while tracing is off.
var tracer atomic.Pointer[trace.Tracer]

// Enabled reports whether this process exports spans.
func Enabled() bool { return tracer.Load() != nil }

// Attr is an attribute of a span.
type Attr = attribute.KeyValue

// String makes an attribute. Its value must be an id or a name: never what a customer wrote.
func String[T ~string](key string, value T) Attr { return attribute.String(key, string(value)) }

// Int makes an attribute.
func Int(key string, value int) Attr { return attribute.Int(key, value) }

// Header is the HTTP header that carries a traceparent.
const Header = "Traceparent"

var format propagation.TraceContext

// Adopt returns a context in which new spans are children of a traceparent's span. It returns ctx
// for a traceparent that is empty or malformed.
func Adopt(ctx context.Context, traceparent string) context.Context {
	if traceparent == "" {
		return ctx
	}
	return format.Extract(ctx, propagation.MapCarrier{"traceparent": traceparent})
}

// Parent returns the traceparent of the span of ctx, or "" if it has none.
func Parent(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	format.Inject(ctx, carrier)
	return carrier["traceparent"]
}

// TraceID returns the trace id of a traceparent, or "".
func TraceID(traceparent string) string {
	if of := spanContext(traceparent); of.IsValid() {
		return of.TraceID().String()
	}
	return ""
}

// SampledID is TraceID, but "" for a trace that is not recorded.
func SampledID(traceparent string) string {
	if of := spanContext(traceparent); of.IsSampled() {
		return of.TraceID().String()
	}
	return ""
}

func spanContext(traceparent string) trace.SpanContext {
	if traceparent == "" {
		return trace.SpanContext{}
	}
	return trace.SpanContextFromContext(Adopt(context.Background(), traceparent))
}

// Start starts a span, a child of the span of ctx. end ends it, as failed if there is an error;
// the error's text is left out, since it may quote a customer.
func Start(ctx context.Context, name string, attrs ...Attr) (_ context.Context, end func(error)) {
	t := tracer.Load()
	if t == nil {
		return ctx, func(error) {}
	}
	ctx, span := (*t).Start(ctx, name, trace.WithAttributes(attrs...))
	return ctx, func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}

// Serve is Start for a request that another process made.
func Serve(ctx context.Context, name string, attrs ...Attr) (_ context.Context, end func(failed bool)) {
	t := tracer.Load()
	if t == nil {
		return ctx, func(bool) {}
	}
	ctx, span := (*t).Start(ctx, name, trace.WithAttributes(attrs...), trace.WithSpanKind(trace.SpanKindServer))
	return ctx, func(failed bool) {
		if failed {
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}

// Span is a span that is recorded once it is over.
type Span struct {
	// Parent is the traceparent of its parent. Without one the span is not recorded.
	Parent   string
	Name     string
	From, To time.Time
	Failed   bool
	Attrs    []Attr
	// ID is its id, zero for a random one. Link is the id of a span of the same trace, or zero.
	ID, Link SpanID
}

// SpanID is the id of a span.
type SpanID = trace.SpanID

// Record records a span that is over.
func Record(s Span) {
	t := tracer.Load()
	if t == nil || s.Parent == "" {
		return
	}
	parent := spanContext(s.Parent)
	if !parent.IsSampled() {
		return
	}
	ctx := trace.ContextWithRemoteSpanContext(context.Background(), parent)
	if s.ID.IsValid() {
		ctx = context.WithValue(ctx, chosenID{}, s.ID)
	}
	options := []trace.SpanStartOption{trace.WithTimestamp(s.From), trace.WithAttributes(s.Attrs...)}
	if s.Link.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: parent.WithSpanID(s.Link)}))
	}
	_, span := (*t).Start(ctx, s.Name, options...)
	if s.Failed {
		span.SetStatus(codes.Error, "")
	}
	span.End(trace.WithTimestamp(s.To))
}

// AttemptID returns the id of the span of a job's attempt. Every process computes the same, so that
// an agent's spans have their parent before that is recorded, at the end of the attempt.
func AttemptID(job string, attemptNo int) SpanID {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", job, attemptNo))
	return SpanID(sum[:8])
}

// ForAttempt returns the traceparent that an attempt hands to its agent, or "" for a job without
// one.
func ForAttempt(traceparent, job string, attemptNo int) string {
	of := spanContext(traceparent)
	if !of.IsValid() {
		return ""
	}
	return Parent(trace.ContextWithSpanContext(context.Background(), of.WithSpanID(AttemptID(job, attemptNo))))
}
