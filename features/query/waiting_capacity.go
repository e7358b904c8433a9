package query

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
)

// supply is the capacity that can run a job, added up.
type supply struct {
	capacity.Capacity
	ready time.Time // when the first of the booting workers is expected
}

// supplyFor adds up the capacity that can run the job.
func (s *situation) supplyFor(job *models.Job) (all supply) {
	for _, c := range s.capacityFor(job) {
		all.Idle, all.Busy, all.Booting, all.Most = all.Idle+c.Idle, all.Busy+c.Busy, all.Booting+c.Booting, all.Most+c.Most
		all.Quarantined, all.Leaving, all.Room = all.Quarantined+c.Quarantined, all.Leaving+c.Leaving, all.Room+c.Room
		all.Paused, all.Dear, all.BatchWaits = all.Paused || c.Paused, all.Dear || c.Dear, all.BatchWaits || c.BatchWaits
		all.Opens, all.Unmanaged, all.Pools = all.Opens+c.Opens, all.Unmanaged+c.Unmanaged, all.Pools+c.Pools
		all.Closed, all.Refused, all.Failing = all.Closed+c.Closed, all.Refused+c.Refused, all.Failing+c.Failing
		all.OpensAt, all.RefusedUntil = sooner(all.OpensAt, c.OpensAt), sooner(all.RefusedUntil, c.RefusedUntil)
		all.Refusal = cmp.Or(all.Refusal, c.Refusal)
		all.EnginesDown, all.EnginesHeld = all.EnginesDown+c.EnginesDown, all.EnginesHeld+c.EnginesHeld
		all.EngineProblem = cmp.Or(all.EngineProblem, c.EngineProblem)
		if c.NotBooting {
			if !all.NotBooting || c.BootRetryAt.Before(all.BootRetryAt) {
				all.BootRetryAt, all.BootFailure = c.BootRetryAt, c.BootFailure
			}
			all.NotBooting, all.BootFailures = true, max(all.BootFailures, c.BootFailures)
		}
		if c.Booting > 0 && c.BootSeconds != nil {
			at := c.BootingSince.Add(time.Duration(*c.BootSeconds * float64(time.Second)))
			if at.After(s.now) {
				all.ready = sooner(all.ready, at)
			}
		}
	}
	return all
}

// whyNoCapacity returns the reason why no worker is free for the job, if none is.
func (s *situation) whyNoCapacity(job *models.Job) []WaitingReason {
	c := s.supplyFor(job)
	spared := s.avoids(job) && c.Idle == 1 && c.Busy > 0
	if c.Idle > 0 && !spared {
		return s.whyWarm(job)
	}
	reason := s.whyNoWorker(job, c)
	if spared {
		reason = s.whySpared(job, c)
	}
	reason.Message += restrictions(job, s.now)
	if job.RequireRegion && reason.Code != WaitNoPool { // else it says so
		reason.Message += " It runs only in the region " + job.Region + "."
	}
	return []WaitingReason{reason}
}

// whyNoWorker says why no worker is idle that can run the job: what each of the others does, and what
// the pools lack for more of them. It is the only place that maps the capacity to sentences.
func (s *situation) whyNoWorker(job *models.Job, c supply) WaitingReason {
	stuck := c.Booting+c.Room == 0 // no worker comes from the pools that Reelay scales
	switch {
	case c.NotBooting && c.Most > 0 && (c.Opens == 0 || stuck):
		return s.whyNotBooting(c)
	case stuck && c.Refused > 0:
		return WaitingReason{Code: WaitCapacityExhausted, Until: c.RefusedUntil, Cause: c.Refusal,
			Message: none(c) + ": a provider has just refused machines. It is asked again at " +
				text.MomentToSecond(c.RefusedUntil.UTC(), s.now) + ".",
			Consequence: "No machine is asked for before that" + orFree(c) + ".",
			Change:      "The provider has machines again. A change of the pool has it asked at once."}
	case stuck && c.Failing > 0:
		return WaitingReason{Code: WaitCapacityExhausted, Cause: c.Refusal,
			Message:     none(c) + ": the provider of the machines does not answer as it should.",
			Consequence: "No machine is asked for before it does" + orFree(c) + ".",
			Change:      "The provider answers again: an operator checks its state and its credentials."}
	case stuck && c.Closed > 0:
		return WaitingReason{Code: WaitCapacityExhausted, Until: c.OpensAt,
			Message:     none(c) + ": its pools have workers at certain hours only, again from " + text.Moment(c.OpensAt.UTC(), s.now) + ".",
			Consequence: "No machine is asked for before that" + orFree(c) + ".",
			Change:      "An operator gives one of the pools other active hours."}
	case c.Booting > 0 && c.Most > 0: // those of a pool that may have none leave
		message := text.Count(c.Booting, "suitable worker") + " " + verb(c.Booting, "is", "are") + " starting"
		if !c.ready.IsZero() {
			message += fmt.Sprintf(", ready in about %s", whole(c.ready.Sub(s.now)))
		}
		return WaitingReason{Code: WaitCapacityBooting, Message: message + ".", Until: c.ready,
			Consequence: "Once they have registered, they take the waiting jobs in their order.",
			Change:      "Nothing needs to be done. A machine that does not start is replaced."}
	case job.Lane == models.TierBatch && c.BatchWaits:
		until := job.QueuedAt.Add(time.Duration(s.paused[job.ID].Seconds*float64(time.Second)) + jobs.Policies[models.TierBatch].Patience)
		return WaitingReason{Code: WaitPrice, Until: until,
			Message:     "Waiting for cheaper machines, until " + text.Moment(until.UTC(), s.now) + " at the latest.",
			Consequence: "No machine is started for it at the present price" + orFree(c) + ".",
			Change:      "The price falls. Submitted in a higher tier, it would not wait for that."}
	case c.Most == 0:
		return s.whyNoMore(job, c)
	case c.Unmanaged == c.Most && c.Busy+c.Quarantined == 0 && c.EnginesDown+c.EnginesHeld > 0:
		return whyNoEngine(c)
	case c.Unmanaged == c.Most && c.Busy+c.Quarantined == 0:
		return WaitingReason{Code: WaitCapacityExhausted,
			Message:     "No suitable worker has registered. Reelay does not start the machines of these pools; it waits for their agents.",
			Consequence: "It starts once one has registered.", Change: "An operator starts an agent for one of these pools."}
	}
	reason := WaitingReason{Code: WaitCapacityExhausted, Message: fmt.Sprintf("%s; pool maximum is %d%s.", none(c), c.Most, withheld(c)),
		Consequence: "It cannot start before one of them is free.", Change: "An operator raises the maximum of a pool that can run it."}
	switch {
	case c.Room > 0:
		reason.Consequence = fmt.Sprintf("The pools have room for %s%s.", text.Count(c.Room, "more worker"), inTime(job))
		reason.Change = "Nothing needs to be done."
	case c.Busy == 0:
		reason.Consequence = "It cannot start before a worker is back, or a machine has ended and a new one has registered."
	}
	return reason
}

// whyNoMore is the reason for jobs whose pools, if they have any, may have no more workers.
func (s *situation) whyNoMore(job *models.Job, c supply) WaitingReason {
	why := WaitingReason{Code: WaitCapacityExhausted, Consequence: "No worker will take it as things are."}
	if c.Busy > 0 {
		why.Consequence = "It cannot start before one of them is free."
	}
	switch {
	case c.Dear:
		why.Code, why.Message = WaitPrice, "Suitable machines cost more than the price limits of their pools."
		why.Change = "The price falls, or an operator raises maxPricePerHourUsd of a pool."
	case c.Paused:
		why.Code, why.Message = WaitPoolPaused, "The pools that can run it are paused."
		why.Change = "An operator resumes one of the pools."
	case c.Quarantined > 0:
		why.Message = text.Count(c.Quarantined, "worker") + " that can run it " + verb(c.Quarantined, "is", "are") +
			" quarantined after failures, and no pool can start more."
		why.Change = "The quarantine ends, or an operator releases a worker."
	case c.Busy > 0:
		why.Message = none(c) + ", and no pool can start more."
		why.Change = "An operator adds a pool that can run it."
		return why
	case s.tooDear(job):
		why.Code, why.Message = WaitPrice, "No suitable worker is that cheap now."
		why.Change = "The price falls. Submitted with a higher maxPricePerHour, the job would run."
	case s.catalogue.Removed(job.Model):
		why.Code, why.Message = WaitNoPool, "The model "+job.Model+" was removed from the catalogue. An admin can restore it."
		why.Change = "An admin restores the model."
	case c.Pools > 0:
		why.Message = "The pools that can run it may have no workers: their maximum is 0."
		why.Change = "An operator raises the maximum of one of them."
	default:
		why.Code, why.Message = WaitNoPool, "No pool and no worker can run it"+needs(job)+s.forOthers(job)+"."
		why.Change = "An operator adds a pool or a worker that can, or the job is submitted again with what the present ones have."
	}
	if c.Busy > 0 {
		why.Message = none(c) + ", and no more start. " + why.Message
	}
	return why
}

// whyNoEngine is the reason for jobs whose pools have engines that do not work, and nothing else.
func whyNoEngine(c supply) WaitingReason {
	var states []string
	if c.EnginesDown > 0 {
		states = append(states, text.Count(c.EnginesDown, "engine")+" cannot be reached")
	}
	if c.EnginesHeld > 0 {
		states = append(states, text.Count(c.EnginesHeld, "engine")+" "+verb(c.EnginesHeld, "is", "are")+" drained or held")
	}
	return WaitingReason{Code: WaitCapacityExhausted, Cause: c.EngineProblem,
		Message:     "No engine that can run it works: " + strings.Join(states, ", and ") + ".",
		Consequence: "It starts once one of them works again.",
		Change:      "An operator starts the engines, and the agent that drives them, or ends a hold."}
}

// whyNotBooting is the reason for jobs whose only pools have machines that do not start.
func (s *situation) whyNotBooting(c supply) WaitingReason {
	why := WaitingReason{Code: WaitNotBooting, Cause: c.BootFailure,
		Message:     fmt.Sprintf("No suitable worker starts: %s in a row failed to", text.Count(c.BootFailures, "machine")),
		Consequence: "Machines are tried one at a time until one has registered" + orFree(c) + ".",
		Change:      "An operator mends what keeps them from starting. A change of the pool has them tried at once."}
	if c.Busy > 0 {
		why.Message = fmt.Sprintf("%s, and no more start: %s in a row failed to", none(c), text.Count(c.BootFailures, "machine"))
	}
	switch {
	case c.BootRetryAt.After(s.now):
		why.Message, why.Until = why.Message+". The next attempt is at "+text.MomentToSecond(c.BootRetryAt.UTC(), s.now)+".", c.BootRetryAt
	case c.Booting > 0:
		why.Message += ". One is starting now."
	default:
		why.Message += ". One is tried next."
	}
	return why
}

// avoids reports whether a worker is idle that the job avoids for now, because the worker has
// just failed it.
func (s *situation) avoids(job *models.Job) bool {
	w := s.avoided[job.AvoidWorkerID]
	return w != nil && w.Status == models.WorkerIdle && job.AvoidUntil.After(s.now) &&
		s.catalogue.CapabilityOf(w.Offer).Serves(job.Queue(), job.AccountID)
}

// whySpared is the reason for a job that the only idle worker has just failed.
func (s *situation) whySpared(job *models.Job, c supply) WaitingReason {
	return WaitingReason{Code: WaitCapacityExhausted, Until: job.AvoidUntil,
		Message: fmt.Sprintf("%s that can run it %s busy; the idle one has just failed it and may retry it from %s.",
			text.Count(c.Busy, "worker"), verb(c.Busy, "is", "are"), text.MomentToSecond(job.AvoidUntil.UTC(), s.now)),
		Consequence: "It starts on the idle one only from then on, or before that if no other worker is left.",
		Change:      "Another worker that can run it becomes free."}
}

// whyWarm returns the reason why a job does not start on an idle worker: a busy one that has its model
// in memory is expected to be free before the idle one would have loaded it.
func (s *situation) whyWarm(job *models.Job) []WaitingReason {
	wait, ok := s.estimates.WarmFor(job, nil, s.now.Sub(job.QueuedAt), jobs.Policies[job.Lane].WaitTarget)
	if !ok {
		return nil
	}
	return []WaitingReason{{Code: WaitCapacityExhausted, Until: s.now.Add(wait.Left),
		Message: fmt.Sprintf("A busy worker that has the model loaded is expected to be free in %s; loading it on another takes about %s. "+
			"The job waits for it, at most %s.", whole(wait.Free), whole(wait.Load), whole(wait.Left)),
		Consequence: "The idle workers do not take it before that.",
		Change:      "If the busy worker takes longer, an idle one loads the model and takes the job."}}
}

// none says that no worker is free, and how many are busy.
func none(c supply) string {
	if c.Busy == 0 {
		return "No suitable worker is available"
	}
	return text.Count(c.Busy, "worker") + " that can run it " + verb(c.Busy, "is", "are") + " busy"
}

// orFree adds to what keeps new workers from coming that a busy one may become free.
func orFree(c supply) string {
	if c.Busy == 0 {
		return ""
	}
	return "; until then it can start only when a busy worker is free"
}

// withheld says what takes places of the pools without running a job, or "".
func withheld(c supply) string {
	var why []string
	if c.Leaving > 0 {
		why = append(why, text.Count(c.Leaving, "worker")+" whose machines have not ended yet")
	}
	if c.Quarantined > 0 {
		why = append(why, text.Count(c.Quarantined, "worker")+" in quarantine")
	}
	if len(why) == 0 {
		return ""
	}
	return ", with " + strings.Join(why, " and ")
}

// inTime says when the scaler boots more workers for the jobs of a lane.
func inTime(job *models.Job) string {
	switch target := jobs.Policies[job.Lane].WaitTarget; {
	case job.Needs.Now():
		return ", and boot one for it at once"
	case target == jobs.NoTarget:
		return "; its lane has no wait target, so that jobs share workers"
	case job.Needs.Cheap():
		return ", and boot them if the present ones do not start the jobs with slack within " + text.Setting(jobs.SlackWait)
	case target == 0:
		return ", and boot them for it at once"
	default:
		return fmt.Sprintf(", and boot them if the present ones do not start the jobs of its lane within %s", text.Setting(target))
	}
}

// sooner returns the earlier of two times, or the one that is not zero.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func whole(d time.Duration) string { return text.Duration(d.Round(time.Second)) }

func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

func more(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}
