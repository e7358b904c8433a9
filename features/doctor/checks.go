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
const report = "This is a bug in Reelay, or somebody changed the database by hand. Keep the rows, and report them with the job's history (`reelay get JOB`)."

var invariantChecks = []invariantCheck{
	{
		"account-counters",
		"Each account's counters of waiting and running jobs are the counts of its jobs.",
		"The counters of these accounts do not match their jobs.",
		"A counter that is too high refuses submits or holds jobs back; one that is too low lets the account exceed its limits.",
		"Recount these accounts: docs/operators/doctor.md, account-counters, has the statement.",
	}, {
		"lane-counters",
		"Each lane's counter of an account's queued jobs is their count.",
		"The counters of these accounts and lanes do not match their queued jobs.",
		"A counter of 0 hides queued jobs from claims and from the sweep: they never start.",
		"Recount these lanes: docs/operators/doctor.md, lane-counters, has the statement.",
	}, {
		"capped-line",
		"An account at its limit of running jobs is in no queue. Any other account is in the queues of its lanes.",
		"These accounts are in queues where they should not be, or are missing from queues where they should be.",
		"An account that is missing from a queue is never served. A stale entry slows down every claim.",
		"Correct these rows: docs/operators/doctor.md, capped-line, has the statement.",
	}, {
		"one-live-attempt",
		"A job has at most one live attempt, and so has a worker.",
		"These have several live attempts.",
		"Two workers render one job, or one worker holds two. The result may come from either.",
		"Run `reelay migrate`: a unique index that forbids this is missing. Then terminate all but the newest attempt's worker.",
	}, {
		"current-attempt",
		"Only a job that a worker holds has a live attempt, and points to it.",
		"These jobs and their live attempts disagree.",
		"The worker's calls are refused, or the job waits for a worker that no longer has it.",
		"Terminate the attempt's worker in the console: the job is queued again. " + report,
	}, {
		"held-worker",
		"A worker is BUSY or DRAINING while it holds a live attempt, and BUSY only then.",
		"The status of these workers does not match the attempts that they hold.",
		"A BUSY worker without an attempt gets no job. An IDLE worker with an attempt could get a second one.",
		"Terminate these workers in the console; their agents register again.",
	}, {
		"attempt-overlap",
		"An attempt ends before the job's next one begins.",
		"Attempts of these jobs overlap.",
		"Two workers held the same job at the same time.",
		report,
	}, {
		"attempt-gap",
		"A job's attempts are numbered without a gap.",
		"Attempts of these jobs are missing.",
		"Nobody knows what those workers did, or what it cost.",
		report,
	}, {
		"ledger",
		"The ledger has one entry for each attempt that has ended, with its useful and wasted time, and the fee of each video of a provider.",
		"Attempts or fees of these jobs are missing in the ledger, or it has another time for them.",
		"What they cost is missing in reports and budgets, or counts twice.",
		report,
	}, {
		"purse",
		"Of the budgets of an account is reserved what its jobs that have not ended are estimated to cost.",
		"The budgets of the accounts of these jobs reserve another amount.",
		"Submits of these accounts are refused too soon, or too late.",
		"Set one of the budgets again, with the same limit: that counts anew. And: " + report,
	}, {
		"machine-time",
		"The paid time of a machine is the sum of its parts: booting, loading, idle, useful, wasted and ending.",
		"The workers of these machines, or their attempts, lasted longer than what was paid for.",
		"Idle or ending time would be less than nothing, so the costs of the machines and of the jobs on them do not add up.",
		"Set workersPerMachine of the pool to how many workers run on a machine. If it is right, compare the machine's times " +
			"(`reelay machines --instance NAME`) with the provider's bill: `reelay costs reconcile`. " + report,
	}, {
		"stale-write",
		"After an attempt starts, older attempts of the job write nothing.",
		"An older attempt of these jobs wrote after a newer one started.",
		"Fencing failed: a worker that had lost its lease changed the job.",
		report,
	}, {
		"lost-early",
		"A worker keeps its lease until the lease expires, unless the worker itself is ended.",
		"These attempts were lost before their leases expired.",
		"Healthy workers lose their renders.",
		report,
	}, {
		"event-gap",
		"A job's events are numbered from 1 without a gap.",
		"Events of these jobs are missing.",
		"Subscribers wait for an event that never comes, and the job's history has a gap.",
		report,
	}, {
		"transition",
		"Each transition in a job's history is allowed by the state machine.",
		"The histories of these jobs contain transitions that are not allowed.",
		"Something changed these jobs without the state machine.",
		report,
	}, {
		"history",
		"A job's status is the one in its newest event.",
		"The status of these jobs differs from the one in their newest event.",
		"A change was written without its event, or the other way round.",
		report,
	}, {
		"one-end",
		"A run that has ended has one terminal event, its last. An open run has none.",
		"Runs of these jobs have no terminal event, or several.",
		"Webhooks and subscribers received no end, or two.",
		report,
	}, {
		"run-order",
		"A job's runs follow one another.",
		"Events of these jobs belong to runs out of order.",
		"A run started, or was written to, before the previous one ended.",
		report,
	}, {
		"phantom-event",
		"Every event belongs to a job that exists.",
		"There are events of these jobs, but the jobs do not exist.",
		"Subscribers saw something that did not happen: the event was written outside its transaction.",
		report,
	}, {
		"one-success",
		"A COMPLETED job has one successful attempt in its run, the last. Any other job has none, and so has a job with the result of another one.",
		"These jobs do not.",
		"The job was done twice, or not at all.",
		report,
	}, {
		"started-twice",
		"A run of a job with atMostOnce has at most one attempt.",
		"These jobs started a second time.",
		"Work that must happen at most once may have happened twice.",
		report,
	}, {
		"issued-key",
		"An artifact is the object whose key was issued to its attempt, with the announced type, size and checksum.",
		"These artifacts are not.",
		"A worker published a file that nobody asked it for.",
		report,
	}, {
		"result-pointer",
		"A video belongs to a COMPLETED job and comes from the attempt that succeeded, or from the job whose result this one has.",
		"The videos of these jobs do not.",
		"The client may see the video of another job, or of a worker that had lost this one.",
		report,
	}, {
		"checkpoint-pointer",
		"A job's checkpoint is its own, and was not rejected.",
		"These jobs point to checkpoints of other jobs, or to rejected ones.",
		"The next attempt resumes from the wrong state.",
		"Cancel and retry these jobs from scratch. " + report,
	}, {
		"doomed-object",
		"No object that a row names is marked for deletion.",
		"These objects are marked for deletion, but rows name them.",
		"The next cleanup deletes a video or a checkpoint that is still needed.",
		"Stop control, delete these keys from object_deletions, and report it.",
	}, {
		"deleted-job",
		"A deleted job keeps neither its prompt nor its parameters nor its videos.",
		"These deleted jobs still have data.",
		"The customer was told that the data is gone.",
		report,
	}, {
		"kept-prompt",
		"A job that is not deleted has its prompt and its encryption key.",
		"These jobs have lost their prompts or their encryption keys.",
		"No worker can render these accepted jobs any more.",
		"Restore these rows of job_inputs from a backup, or cancel the jobs. " + report,
	}, {
		"closed-run",
		"Every earlier run of a job is recorded, and every run that failed for good has a dead letter.",
		"Runs of these jobs are not recorded, or have no dead letter.",
		"Nobody sees what went wrong, or can redrive it.",
		report,
	}, {
		"cancelled-complete",
		"A job does not complete after its cancel was requested.",
		"These jobs completed.",
		"The customer pays for a job that was reported as cancelled.",
		report,
	}, {
		"failure-count",
		"An open job is below its limit of failures.",
		"These jobs are open although they have reached their limit of failures.",
		"Jobs that cannot succeed take GPUs from jobs that can.",
		"Cancel these jobs. " + report,
	}, {
		"idempotency",
		"An idempotency key names one job of its account.",
		"Several jobs share the keys of these.",
		"A repeated submit created a second job.",
		"Run `reelay migrate`: a unique index that forbids this is missing. Cancel the later jobs.",
	}, {
		"early-child",
		"A job starts after all its dependencies are COMPLETED.",
		"These jobs started before.",
		"They rendered without the results of their dependencies.",
		report,
	}, {
		"blocked-count",
		"A blocked job's counter matches its open dependencies and pending image fetches.",
		"The counters of these jobs are wrong.",
		"A counter that is too high blocks the job forever; one that is too low starts it early.",
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
		"One customer may see another's data.",
		"Revoke the keys of these accounts until the extent is known. " + report,
	}, {
		"missing-input",
		"A job that needs an image has it, or waits for it.",
		"The images of these jobs are missing.",
		"Workers would render without the image that the customer asked for.",
		"Cancel and submit these jobs again. " + report,
	}, {
		"stuck-fetch",
		"An image of a job is fetched within ten minutes of its due time.",
		"The images of these jobs are more than ten minutes overdue.",
		"Accepted jobs do not start.",
		"Start control, which fetches images. If it runs, its log says why.",
	}, {
		"stuck-workflow",
		"Every running workflow can still make progress.",
		"Every open node of these workflows waits for nodes that have ended.",
		"They never end.",
		"Override what the nodes wait for (`reelay workflows override`), or cancel the workflow. " + report,
	}, {
		"stuck-queued",
		"No job waits for more than ten times its lane's wait target while a suitable worker is idle.",
		"These jobs wait although suitable workers are idle.",
		"Accepted work is not done.",
		"Check that control runs and reaches PostgreSQL, and that the workers' leaseJob calls reach the API. Then restart the agents.",
	}, {
		"stuck-due",
		"A scheduled job is queued within ten minutes of its time.",
		"These jobs are more than ten minutes overdue.",
		"Retries and scheduled jobs do not start.",
		"Start control, which queues due jobs. If it runs, its log says why.",
	}, {
		"unreaped-lease",
		"An expired lease is reaped within ten minutes.",
		"The leases of these attempts expired more than ten minutes ago.",
		"Their jobs wait for workers that are gone.",
		"Start control, which reaps expired leases. If it runs, its log says why.",
	}, {
		"untold-end",
		"Each end of a run has a delivery to every webhook that subscribes to it.",
		"Runs of these jobs ended without a delivery.",
		"A receiver still waits for a webhook about a job that has ended.",
		report,
	}, {
		"stuck-webhook",
		"A webhook is sent within ten minutes of its time.",
		"These deliveries are more than ten minutes overdue.",
		"Receivers get no events, although nothing is wrong with them.",
		"Start control: it sends the webhooks. If it runs, its log says why it does not.",
	},
}
