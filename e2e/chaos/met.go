package main

// What a run must have met, or it proves nothing. Each is a counter.
const (
	metAnswerLost      = "answers of commits lost"
	metDuplicateSubmit = "duplicate submits"
	metDeduplicated    = "submits deduplicated"
	metKeyConflict     = "keys reused for another request, refused"
	metCancelled       = "cancels acknowledged"
	metCancelTooLate   = "cancels too late"
	metCancelRace      = "cancels racing completions"
	metRetried         = "jobs retried by hand"
	metRedriven        = "dead letters redriven"

	metZombie      = "zombies that finished while a newer attempt lived"
	metStale       = "stale writes refused"
	metLost        = "leases lost"
	metReleased    = "jobs handed back on notice"
	metCorrupt     = "corrupt checkpoints rejected"
	metResumed     = "jobs resumed from a checkpoint"
	metPartial     = "partial uploads"
	metStoreErrors = "store errors"
	metFlush       = "FLUSHALLs"
	metPoison      = "poison jobs ended"
	metHung        = "hung runtimes killed"
	metFrozen      = "agents frozen beyond a lease"
	metMass        = "70 % of the fleet gone"
	metRedelivered = "outbox messages redelivered"
	metKillAgent   = "kills of agents"
	metKillRuntime = "kills of runtimes"
	metKillAPI     = "kills of api"
	metKillControl = "kills of control"
	metKillPG      = "kills of PostgreSQL"
	metKillRedis   = "kills of Redis"
	metToxic       = "network toxics"

	metNewServers = "servers replaced"
	metNewAgents  = "agents replaced"
	metReads      = "reads"
	metEvents     = "events read from subscriptions"
	metReopened   = "subscriptions opened again"

	badKeyReused  = "keys reused for another request, accepted"
	badStaleWrite = "stale writes accepted"
	badEventGap   = "events that a subscription missed or repeated"
)

// must lists what a run of full length must have met.
var must = []string{
	metAnswerLost, metDuplicateSubmit, metDeduplicated, metKeyConflict, metCancelled, metCancelRace, metRetried, metRedriven,
	metZombie, metStale, metLost, metReleased, metCorrupt, metResumed, metPartial, metStoreErrors, metFlush, metPoison,
	metHung, metFrozen, metMass, metRedelivered, metKillAgent, metKillRuntime, metKillAPI, metKillControl, metKillPG,
	metKillRedis, metToxic,
}

// mustReclaim lists what a run with waves of reclamation must have met.
var mustReclaim = []string{metMass, metKillAgent, metLost, metReleased, metResumed}

// mustUpgrade lists what an upgrade and its rollback must have met.
var mustUpgrade = []string{metDeduplicated, metCancelled, metReleased, metResumed, metNewServers, metNewAgents, metReads, metEvents, metReopened}

// mustSoon lists what even a run of seconds must have met.
var mustSoon = []string{
	metAnswerLost, metDuplicateSubmit, metKillAgent, metKillRuntime, metKillAPI, metKillControl, metKillPG,
	metKillRedis, metFlush, metToxic,
}
