package doctor

import "github.com/reelay/reelay/models"

// invariantCheck says what an invariant means to people.
type invariantCheck struct {
	which models.Invariant
	// holds is the invariant, found what is said where it does not hold, matters
	// why that is bad, and fix what to do.
	holds, found, matters, fix string
}

// report is the fix of what no operator can have caused.
const report = "This is a bug in Reelay, or a change that was made in the database by hand: keep the rows, and report them with the job's history (`reelay get JOB`)."

var invariantChecks = []invariantCheck{
	{
		"account-counters",
		"Each account's counters of waiting and running jobs are the counts of its jobs.",
		"Counters of these accounts are not the counts of their jobs.",
		"Too high a counter refuses submits or holds jobs back; too low a one lets the account exceed its limits.",
		"Recount these accounts: docs/operators/doctor.md, account-counters, has the statement.",
	}, {
		"lane-counters",
		"Each lane's counter of an account's queued jobs is their count.",
		"Counters of these accounts and lanes are not the counts of their queued jobs.",
		"A counter of 0 hides queued jobs from every claim and from the sweep: they would wait for ever.",
		"Recount these lanes: docs/operators/doctor.md, lane-counters, has the statement.",
	}, {
		"capped-line",
		"An account at its limit of running jobs is in no queue. Any other account is in the queues of its lanes.",
		"These accounts are in queues where they should not be, or are missing from queues where they should be.",
		"An account that is missing from a queue is never served. One that should not be there makes every claim read it for nothing.",
		"Correct these rows: docs/operators/doctor.md, capped-line, has the statement.",
	}, {
		"one-live-attempt",
		"A job has one live attempt at most, and so has a worker.",
		"These have several live attempts.",
		"Two workers render one job, or one worker holds two: the result may be either's.",
		"Run `reelay migrate`: a unique index that forbids this is missing. Then terminate all but the newest attempt's worker.",
	}, {
		"current-attempt",
		"A job that is worked on points to its live attempt, and nothing else does.",
		"These jobs and their live attempts disagree.",
		"The worker's calls are refused, or the job waits for a worker that it does not have.",
		"Terminate the attempt's worker in the console: the job is queued again. " + report,
	}, {
		"held-worker",
		"A worker is BUSY or DRAINING while it holds a live attempt, and BUSY only then.",
		"The status of these workers does not match the attempts that they hold.",
		"A BUSY worker without an attempt is never given work; an idle one with an attempt could be given a second.",
		"Terminate these workers in the console; their agents register again.",
	}, {
		"attempt-overlap",
		"An attempt ends before the job's next one begins.",
		"Attempts of these jobs overlap.",
		"Two workers had the same job at the same time.",
		report,
	}, {
		"attempt-gap",
		"A job's attempts are numbered without a gap.",
		"Attempts of these jobs are missing.",
		"What a worker did, and what it cost, is not known.",
		report,
	}, {
		"stale-write",
		"Once an attempt has begun, no older one writes.",
		"An older attempt of these jobs wrote after a newer one had begun.",
		"The fence failed: a worker that had lost its lease changed the job.",
		report,
	}, {
		"lost-early",
		"No lease is taken from a worker before it ran out, unless the worker itself was ended.",
		"These attempts were lost before their leases ran out.",
		"Healthy workers lose their renders.",
		report,
	}, {
		"event-gap",
		"A job's events are numbered from 1 without a gap.",
		"Events of these jobs are missing.",
		"Followers of the job wait for an event that never comes, and its history is not whole.",
		report,
	}, {
		"transition",
		"Each transition in a job's history is allowed by the state machine.",
		"The histories of these jobs contain transitions that are not allowed.",
		"Something changed the jobs past the state machine.",
		report,
	}, {
		"history",
		"A job's status is the one in its newest event.",
		"The status of these jobs differs from the one in their newest event.",
		"A change was written without its event, or the other way round.",
		report,
	}, {
		"one-end",
		"A run that has ended has one terminal event, its last; any other has none.",
		"Runs of these jobs have not ended just once.",
		"Webhooks and followers were told of no end, or of two.",
		report,
	}, {
		"run-order",
		"A job's runs follow one another.",
		"Events of these jobs are of runs that come too soon or too late.",
		"A run was opened, or written to, past the one before it.",
		report,
	}, {
		"phantom-event",
		"Every event belongs to a job that exists.",
		"There are events of these jobs, but the jobs do not exist.",
		"Somebody was told of something that did not happen: the event was written outside its transaction.",
		report,
	}, {
		"one-success",
		"A COMPLETED job has one attempt of its run that succeeded, its last; any other job has none.",
		"These jobs do not.",
		"The job was done twice, or not at all.",
		report,
	}, {
		"started-twice",
		"A run of a job that is atMostOnce has one attempt at most.",
		"These jobs were given to a worker again.",
		"What must happen only once may have happened twice.",
		report,
	}, {
		"issued-key",
		"An artifact is the object whose key was issued to its attempt, with the announced type, size and checksum.",
		"These artifacts are not.",
		"A worker published what it was not asked for.",
		report,
	}, {
		"result-pointer",
		"A video belongs to a COMPLETED job and comes from the attempt that succeeded.",
		"The videos of these jobs do not.",
		"The client may be shown another job's video, or one of a worker that had lost the job.",
		report,
	}, {
		"checkpoint-pointer",
		"A job's checkpoint is its own, and was not rejected.",
		"These jobs point to checkpoints that are not theirs or do not restore.",
		"The next attempt resumes from the wrong state.",
		"Cancel and retry these jobs from scratch. " + report,
	}, {
		"doomed-object",
		"No object that a row names is to be deleted.",
		"These objects are to be deleted, and rows name them.",
		"The next upkeep deletes a video or a checkpoint that is still needed.",
		"Stop control, delete these keys from object_deletions, and report it.",
	}, {
		"deleted-job",
		"A deleted job keeps neither its prompt nor its parameters nor its videos.",
		"Something is left of these deleted jobs.",
		"A customer was told that it is gone.",
		report,
	}, {
		"kept-prompt",
		"A job that was not deleted has its prompt, and the key to it.",
		"The prompts of these jobs, or the keys to them, are gone.",
		"No worker can render them any more, though they were accepted.",
		"Restore these rows of job_inputs from a backup, or cancel the jobs. " + report,
	}, {
		"closed-run",
		"Each run that was followed by another is kept, and each that failed for good has its dead letter.",
		"Runs of these jobs are not recorded, or have no dead letter.",
		"Nobody sees what went wrong, or can redrive it.",
		report,
	}, {
		"cancelled-complete",
		"A job whose cancel was asked for does not complete.",
		"These jobs completed.",
		"Somebody was told that the job would not be done, and pays for it.",
		report,
	}, {
		"failure-count",
		"A job that goes on has failed less often than it may.",
		"These jobs have failed too often to go on.",
		"A job that cannot succeed takes GPUs from those that can.",
		"Cancel these jobs. " + report,
	}, {
		"idempotency",
		"An idempotency key names one job of its account.",
		"Several jobs share the keys of these.",
		"A repeated submit made a second job.",
		"Run `reelay migrate`: a unique index that forbids this is missing. Cancel the later jobs.",
	}, {
		"early-child",
		"A job starts after all that it depends on are COMPLETED.",
		"These jobs started before.",
		"They rendered without their parents' results.",
		report,
	}, {
		"blocked-count",
		"A job's count of what it waits for is how many of its parents it waits for, and an image that is still to be fetched.",
		"The counts of these jobs are wrong.",
		"Too high a count blocks the job for ever; too low a one starts it early.",
		"Cancel and submit these jobs again. " + report,
	}, {
		"workflow-counts",
		"A workflow counts its open and failed nodes.",
		"The counts of these workflows are wrong.",
		"They never end, or end early, and their webhooks with them.",
		"Cancel and submit these workflows again. " + report,
	}, {
		"tenancy",
		"Artifacts and dependencies stay within the job's account.",
		"These belong to another account than their jobs.",
		"One customer may see what is another's.",
		"Revoke the keys of the accounts concerned until it is clear how far it went. " + report,
	}, {
		"missing-input",
		"A job that begins from an image has it, or waits for it.",
		"The images of these jobs are missing.",
		"Workers would render without the image that the customer asked for.",
		"Cancel and submit these jobs again. " + report,
	}, {
		"stuck-fetch",
		"An image that a job begins from is fetched within ten minutes after it is due.",
		"The images of these jobs should have been fetched more than ten minutes ago.",
		"Accepted jobs do not start.",
		"Start control, which fetches images. If it runs, its log says why.",
	}, {
		"stuck-workflow",
		"In a running workflow, something runs, or waits for what can still happen.",
		"Every open node of these workflows waits for nodes that have ended.",
		"They never end.",
		"Override what the nodes wait for (`reelay workflows override`), or cancel the workflow. " + report,
	}, {
		"stuck-queued",
		"No job is queued for ten wait targets of its lane while a worker that could run it is idle.",
		"These jobs wait, and workers that could run them are idle.",
		"Accepted work is not done.",
		"See that control runs and reaches PostgreSQL, and that the workers' leaseJob calls reach the API; then restart the agents.",
	}, {
		"stuck-due",
		"A job whose time has come is queued within ten minutes.",
		"The time of these jobs came more than ten minutes ago.",
		"Retries and scheduled jobs do not start.",
		"Start control, which queues due jobs. If it runs, its log says why.",
	}, {
		"unreaped-lease",
		"A lease that ran out is taken back within ten minutes.",
		"The leases of these attempts ran out more than ten minutes ago.",
		"Their jobs wait for workers that are gone.",
		"Start control, which takes back expired leases. If it runs, its log says why.",
	}, {
		"untold-end",
		"Each end of a run has a delivery to every webhook that subscribes to it.",
		"Ends of these jobs' runs have none.",
		"A receiver still waits for a webhook about a job that has ended.",
		report,
	}, {
		"stuck-webhook",
		"A webhook is tried within ten minutes of its time.",
		"The time of these deliveries came more than ten minutes ago.",
		"Receivers are not told, though nothing is wrong with them.",
		"Start control: it sends the webhooks. If it runs, its log says why it does not.",
	},
}
