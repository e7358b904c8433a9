package e2e

import (
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// receiver is an OTLP receiver over HTTP, as a collector has it.
type receiver struct {
	mu    sync.Mutex
	spans []*otlp.Span
	// by has the service that sent each span, in the same order.
	by []string
}

// ServeHTTP implements http.Handler.
func (c *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var sent collector.ExportTraceServiceRequest
	if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &sent) != nil {
		http.Error(w, "not OTLP", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range sent.ResourceSpans {
		service := ""
		for _, attr := range resource.Resource.Attributes {
			if attr.Key == "service.name" {
				service = attr.Value.GetStringValue()
			}
		}
		for _, scope := range resource.ScopeSpans {
			for _, span := range scope.Spans {
				c.spans, c.by = append(c.spans, span), append(c.by, service)
			}
		}
	}
}

// of returns the spans of a trace by "service name", whether the parents of all of them are in the
// trace or are root, and their text.
func (c *receiver) of(trace, root string) (spans map[string]*otlp.Span, connected bool, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	spans = map[string]*otlp.Span{}
	ids, parents := map[string]bool{root: true}, map[string]bool{}
	for i, span := range c.spans {
		if hex.EncodeToString(span.TraceId) == trace {
			spans[c.by[i]+" "+span.Name] = span
			text += span.String()
			ids[hex.EncodeToString(span.SpanId)], parents[hex.EncodeToString(span.ParentSpanId)] = true, true
		}
	}
	for parent := range parents {
		if !ids[parent] {
			return spans, false, text
		}
	}
	return spans, true, text
}

// collected receives the spans of the common stack, which records only what its callers trace.
var collected = &receiver{}

// traceTo is the environment of a stack that sends its spans to c.
func traceTo(c *receiver) []string {
	server := httptest.NewServer(c)
	return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + server.URL, "OTEL_BSP_SCHEDULE_DELAY=200", "OTEL_TRACES_SAMPLER=parentbased_always_off"}
}

func TestTrace(t *testing.T) {
	t.Parallel()

	s := common(t)
	headers := make(chan http.Header, 10)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { headers <- r.Header }))
	defer hook.Close()
	submit := func(traceparent string) {
		ctx := client.WithTraceparent(t.Context(), traceparent)
		in := client.SubmitJobInput{Model: "testcard", Prompt: new("a secret lighthouse"),
			Params: new(json.RawMessage(`{"durationSeconds": 1, "pace": 0}`)), CallbackUrl: new(hook.URL)}
		_, err := s.client(t).SubmitJob(ctx, in)
		require.NoError(t, err)
	}
	newTrace := func() string { return strings.ReplaceAll(uuid.NewString(), "-", "") }
	const root = "00f067aa0ba902b7"
	trace, quiet := newTrace(), newTrace()

	submit("00-" + quiet + "-" + root + "-00")
	submit("00-" + trace + "-" + root + "-01")

	var found []string
	for range 2 { // the job that is not sampled is told to its receiver like the other
		select {
		case header := <-headers:
			found = append(found, strings.Split(header.Get("Traceparent"), "-")[1])
		case <-time.After(testrun.WaitLimit):
			t.Fatal("no webhook came: " + s.output())
		}
	}
	require.ElementsMatch(t, []string{trace, quiet}, found)
	want := []string{
		"reelay POST graphql", "reelay submit", "reelay queue", "reelay outbox", "reelay attempt", "reelay webhook",
		"reelay-agent starting", "reelay-agent rendering", "reelay-agent uploading", "reelay-agent upload result", "reelay-agent complete",
	}
	var spans map[string]*otlp.Span
	var text string
	require.Eventually(t, func() bool {
		var connected bool
		spans, connected, text = collected.of(trace, root)
		return connected && !slices.ContainsFunc(want, func(name string) bool { return spans[name] == nil })
	}, testrun.WaitLimit, 100*time.Millisecond)
	for name, span := range spans {
		require.LessOrEqual(t, span.StartTimeUnixNano, span.EndTimeUnixNano, name)
	}
	require.Equal(t, spans["reelay attempt"].SpanId, spans["reelay-agent rendering"].ParentSpanId)
	require.Equal(t, spans["reelay submit"].SpanId, spans["reelay attempt"].ParentSpanId)
	require.NotContains(t, text, "lighthouse")
	require.NotContains(t, text, hook.URL)

	spans, _, _ = collected.of(quiet, root)
	require.Empty(t, spans)
}
