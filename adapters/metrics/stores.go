package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/reelay/reelay/features/hosted"
	"github.com/reelay/reelay/jobs/submit"
)

// stores measures the calls of the object store and of Redis.
type stores struct{ objects, redis *prometheus.HistogramVec }

// callBuckets end beyond the longest call of each: a whole object may take a minute.
var (
	objectBuckets = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}
	redisBuckets  = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5}
)

func newStores() stores {
	return stores{
		objects: histogram("reelay_object_call_duration_seconds",
			"How long calls of the object store took, each try by itself, by operation (stat, read, write, delete or list) and result: ok, missing "+
				"(no such object), exists (objects are never overwritten), refused, throttled (too many requests), cancelled (by the caller) or error (none, or a broken answer). A read ends with "+
				"the head of the answer.", objectBuckets, "operation", "result"),
		redis: histogram("reelay_redis_call_duration_seconds",
			"How long calls of Redis took, pipelines as one, by result: ok, refused, cancelled (by the caller) or error (no answer, or not asked "+
				"since it did not answer a moment ago).", redisBuckets, "result"),
	}
}

func (s *stores) all() []prometheus.Collector { return []prometheus.Collector{s.objects, s.redis} }

// ObjectCall measures a call of the object store.
func (m *Metrics) ObjectCall(operation, result string, took time.Duration) {
	m.stores.objects.WithLabelValues(operation, result).Observe(took.Seconds())
}

// RedisCall measures a call of Redis.
func (m *Metrics) RedisCall(result string, took time.Duration) {
	m.stores.redis.WithLabelValues(result).Observe(took.Seconds())
}

// moderate measures the questions to the moderation server.
type moderate struct {
	requests *prometheus.CounterVec
	took     *prometheus.HistogramVec
}

func newModerate() moderate {
	return moderate{
		requests: counter("reelay_moderation_requests_total",
			"Questions to the moderation server, by outcome: allowed, refused, failed (no valid answer, so the job was refused) and unchecked "+
				"(no valid answer, and the job was accepted nevertheless).", "outcome"),
		took: histogram("reelay_moderation_duration_seconds", "How long these questions took, with the wait for their turn.",
			[]float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10}),
	}
}

func (m *moderate) all() []prometheus.Collector { return []prometheus.Collector{m.requests, m.took} }

// Moderated counts a question to the moderation server.
func (m *Metrics) Moderated(outcome submit.Moderation, took time.Duration) {
	m.moderate.requests.WithLabelValues(string(outcome)).Inc()
	m.moderate.took.WithLabelValues().Observe(took.Seconds())
}

func newHints() *prometheus.CounterVec {
	return counter("reelay_provider_webhooks_total",
		"Webhooks of hosted providers, by result: taken (it brings a poll forward), surplus (more than a job may have), late (the job is over) "+
			"and unknown (the address is none of Reelay's).", "result")
}

// ProviderWebhook counts a webhook of a hosted provider.
func (m *Metrics) ProviderWebhook(result hosted.WebhookResult) {
	m.hints.WithLabelValues(string(result)).Inc()
}
