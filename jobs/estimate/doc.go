// Package estimate forecasts waits and ends of jobs from the queue, the workers and the times of past
// renders.
package estimate
