// Package text has the forms of what people read: counts, durations, times, clipped and checked texts.
package text
