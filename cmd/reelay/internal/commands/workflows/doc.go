// Package workflows has the commands about jobs that depend on each other or run at set times:
// workflows, storyboards and schedules.
package workflows
