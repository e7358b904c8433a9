// Package estimate forecasts waits and ends of jobs from the queues, the workers, and the durations
// of past renders.
package estimate
