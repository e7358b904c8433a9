package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// readTimeout bounds what is read for a scrape, and readEvery how often.
	readTimeout = 5 * time.Second
	readEvery   = 5 * time.Second
)

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}
