package models

import "slices"

// The reasons for which Reelay, its agents and operators drain or end workers.
const (
	LeavesFewer      = "the pool needs fewer workers"
	LeavesDear       = "the pool costs more than its maxPricePerHourUsd"
	LeavesPaused     = "its pool is paused"
	LeavesIdle       = "it had no job (--exit-when-idle)" // as the agent says it
	LeavesDrained    = "an operator asked for it"
	LeavesPreempted  = "an operator preempted its machine"
	LeavesTerminated = "an operator ended its worker"
	LeavesHeld       = "an operator holds its engine"
	LeavesUnlisted   = "its pool lists its engine no longer"
)

// deliberate lists these reasons. The end of an attempt for one of them says nothing about the
// capacity.
var deliberate = []string{LeavesFewer, LeavesDear, LeavesPaused, LeavesIdle, LeavesDrained, LeavesPreempted, LeavesTerminated,
	LeavesHeld, LeavesUnlisted}

// Deliberate returns the reasons for which Reelay and operators drain or end workers. An attempt
// that ended for one of them was not preempted.
func Deliberate() []string { return slices.Clone(deliberate) }

// IsDeliberate reports whether a reason is one of them.
func IsDeliberate(reason string) bool { return slices.Contains(deliberate, reason) }
