// Package prometheus has the rules and the example configuration for Prometheus, and their tests.
package prometheus
