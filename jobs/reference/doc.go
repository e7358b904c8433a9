// Package reference reads and writes references, such as job_….lastFrame: what a job takes from
// another one.
package reference
