// Package history keeps figures of the past: what happened in each minute, ten minutes, hour and
// day of UTC, computed from the rows of jobs, attempts and events.
//
// [Recorder] writes it, in any number of processes at once. A minute is computed a few seconds
// after it ended. Minutes in which no process ran are computed later; only their gauges, such as
// the number of queued jobs, stay unknown. When all parts of a longer span are known, they are
// added up. Durations are kept as histograms that can be added, so that a percentile of a day is
// computed from the day's jobs and is not a mean of percentiles.
//
// [Reader] reads it. Everything that it returns is nil if it is unknown, and never 0 instead.
//
// A minute costs one row for each lane and model, and one for each pool, in which something
// happened.
package history
