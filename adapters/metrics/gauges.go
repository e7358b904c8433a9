package metrics

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// gauges are a group with one source, which is read at most once in every, however
// often it is scraped. While the source cannot be read there are none: unknown is not 0.
type gauges[T any] struct {
	// what is read, for the log.
	what  string
	every time.Duration
	read  func(context.Context) (T, error) // nil means that this process has no source
	descs []*prometheus.Desc
	emit  func(T, chan<- prometheus.Metric)

	mu    sync.Mutex
	at    time.Time
	known *T
}

// Describe implements prometheus.Collector.
func (s *gauges[T]) Describe(into chan<- *prometheus.Desc) {
	for _, desc := range s.descs {
		into <- desc
	}
}

// Collect implements prometheus.Collector.
func (s *gauges[T]) Collect(into chan<- prometheus.Metric) {
	if known := s.current(); known != nil {
		s.emit(*known, into)
	}
}

func (s *gauges[T]) current() *T {
	if s.read == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.at) >= s.every {
		ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
		defer cancel()
		found, err := s.read(ctx)
		if s.known, s.at = &found, time.Now(); err != nil {
			slog.WarnContext(ctx, "what a scrape asks for cannot be read", "what", s.what, "error", err)
			s.known = nil
		}
	}
	return s.known
}

func gauge(desc *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}
