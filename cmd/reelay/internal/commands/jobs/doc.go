// Package jobs has the commands about jobs that exist: list, show, watch, change and download them.
package jobs
