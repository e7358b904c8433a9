// Package cron computes when a schedule fires: from a cron expression or an interval, a time
// zone, and rules for local times that daylight saving skips or repeats. It reads no clock and
// no database.
package cron
