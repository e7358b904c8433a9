// Package history keeps figures of the past: what happened in each minute, ten minutes, hour and
// day of UTC, computed from the rows of jobs, attempts and events.
//
// [Recorder] writes it, in any number of processes at once. A minute is computed a few seconds
// after it ended. Minutes that no process was there for are computed later; only their gauges,
// such as the number of queued jobs, stay unknown. When all minutes of a longer span are known, it
// is summed up. Durations are kept as histograms that add up, so that a percentile of a day is one
// of the day's jobs and not a mean of percentiles.
//
// [Reader] reads it. Everything that it returns is nil if it is unknown, and never 0 instead.
//
// A minute costs one row for each lane and model, and one for each pool, with anything in it.
package history
