package doctor

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/models/regions"
	"github.com/samber/lo"
)

const (
	// driftLimit is how far this machine's clock may be from PostgreSQL's.
	driftLimit = 30 * time.Second
	// awayLimit is for how long no process of a kind may write its presence.
	awayLimit = 10 * time.Second
	// outboxLimit is how long a message may wait to be carried out.
	outboxLimit = time.Minute
	// oldestPostgres is the oldest major version that Reelay is made for.
	oldestPostgres = 14
)

// surroundings looks at PostgreSQL, and at how the work goes.
func (d *Doctor) surroundings(ctx context.Context) ([]Finding, error) {
	before := time.Now()
	s, err := models.GetSurroundings(ctx, d.DB)
	if err != nil {
		return nil, err
	}
	after := time.Now()
	away, err := models.ListAbsences(ctx, d.DB, awayLimit)
	if err != nil {
		return nil, err
	}
	halts, err := models.ListHalts(ctx, d.DB)
	if err != nil {
		return nil, err
	}
	server, err := regions.ReadServer(ctx, d.DB)
	if err != nil {
		return nil, err
	}
	broken, err := capacity.ListNotBooting(ctx, d.DB)
	if err != nil {
		return nil, err
	}
	troubled, err := capacity.ListTroubledEngines(ctx, d.DB)
	if err != nil {
		return nil, err
	}
	accounts, err := capacity.ListProviderUse(ctx, d.DB, nil)
	if err != nil {
		return nil, err
	}
	deserted, err := capacity.ListDeserted(ctx, d.DB)
	if err != nil {
		return nil, err
	}
	work := append(append(ways(s, away, halts), boots(broken, s.Now)), engines(troubled, s.Now)...)
	work = append(work, desertedPools(deserted))
	work = append(work, providers(accounts)...)
	return append(work, settings(s, server, drift(s.Now, before, after))...), nil
}

// drift is how far this machine's clock is from PostgreSQL's at least, whose time
// was read between two of our own.
func drift(theirs, before, after time.Time) time.Duration {
	return max(before.Sub(theirs), theirs.Sub(after), 0)
}

// Advise is a finding that is advice if found says something.
func Advise(check, holds, found, matters, fix string) Finding {
	f := Finding{Check: check, Level: LevelOK, Holds: holds}
	if found != "" {
		f.Level, f.Found, f.Matters, f.Fix = LevelAdvice, found, matters, fix
	}
	return f
}

// when is the text if it is true.
func when(is bool, format string, args ...any) string {
	if !is {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

// boots is whether the machines of pools start.
func boots(broken []capacity.NotBootingPool, now time.Time) Finding {
	var all []string
	for _, p := range broken {
		next := "one is starting now"
		if p.BootRetryAt.After(now) {
			next = "next attempt at " + text.MomentToSecond(p.BootRetryAt.UTC(), now)
		}
		all = append(all, fmt.Sprintf("%s of the pool %s in a row did not (%s); %s", text.Count(p.Failures, "machine"), p.Name,
			strings.TrimSuffix(text.Printable(p.Failure), "."), next))
	}
	return Advise("boots", "The machines of all pools start.",
		when(len(all) > 0, "%s.", strings.Join(all, ". ")),
		"The scaler starts one machine at a time, with pauses of up to an hour. Jobs that only these pools can run wait.",
		"Correct the cause, then run `reelay pools resume NAME`: docs/operators/runbooks.md#machines-not-starting.")
}

// desertedPools is whether somebody can use each pool.
func desertedPools(names []string) Finding {
	f := Advise("deserted-pools", "Each pool that is dedicated to accounts has one that exists.",
		when(len(names) > 0, "All accounts of these pools are deleted."),
		"They get no workers. They would serve everybody if the list of their accounts were emptied.",
		"Run `reelay pools delete NAME`, or dedicate them to other accounts.")
	f.IDs, f.Count = names[:min(len(names), checkupIDs)], len(names)
	return f
}

// listedEngines is how many engines a finding describes.
const listedEngines = 5

// engines is whether the engines of pools work.
func engines(troubled []*capacity.Engine, now time.Time) []Finding {
	words := func(down bool) string {
		of := lo.Filter(troubled, func(e *capacity.Engine, _ int) bool { return e.State.Down() == down })
		var all []string
		for _, e := range of[:min(len(of), listedEngines)] {
			all = append(all, strings.TrimSuffix(fmt.Sprintf("%s of the pool %s is %s %s: %s", e.URL, e.Pool,
				strings.ToLower(string(e.State)),
				text.Since(e.Since, now), cmp.Or(text.Printable(e.Reason), "it gives no reason")), "."))
		}
		if more := len(of) - len(all); more > 0 {
			all = append(all, fmt.Sprintf("and %d more", more))
		}
		return when(len(all) > 0, "%s.", strings.Join(all, ". "))
	}
	return []Finding{
		Advise("engines", "The engines of all pools answer, and agents drive them.", words(true),
			"They get no jobs. Jobs that only they can run wait.",
			"Start the engines, and `reelay agent --pool NAME`: docs/operators/runbooks.md#engines-unreachable."),
		Advise("drained-engines", "No engine is drained or held for long.", words(false),
			"They get no jobs.",
			"Run `reelay pools resume-engine NAME URL` if an operator's hold is over: docs/operators/runbooks.md#engines-drained."),
	}
}

// providers is how the accounts at hosted providers are.
func providers(accounts []*capacity.ProviderUse) []Finding {
	var away, unknown []string
	for _, u := range accounts {
		if state := u.State(); state == capacity.ProviderOpen || state == capacity.ProviderTrying {
			away = append(away, fmt.Sprintf("The pool %s: %s", u.Pool, strings.TrimSuffix(text.Printable(u.Why()), ".")))
		}
		if u.Unknown > 0 {
			unknown = append(unknown, fmt.Sprintf("%s of the pool %s", text.Count(u.Unknown, "job"), u.Pool))
		}
	}
	return []Finding{
		Advise("hosted-providers", "The hosted providers of all pools answer as they should.",
			when(len(away) > 0, "%s.", strings.Join(away, ". ")),
			"Jobs that only they can run wait.",
			"Replace a refused key in the agents' file of secrets, top up the account, or wait: docs/operators/runbooks.md#providers-failing."),
		Advise("unknown-submits", "Each paid submit was answered.", when(len(unknown) > 0, "Not answered: %s.", strings.Join(unknown,
			", ")),
			"These jobs wait for a decision, and fail without one.",
			"Run `reelay jobs decide ID --pay-again` or `--give-up`: docs/operators/runbooks.md#submits-unknown."),
	}
}

// ways is how the work goes.
func ways(s *models.Surroundings, away []models.Absence, halts []models.Halt) []Finding {
	var absent, halted, stopped, lift []string
	for _, h := range halts {
		what := strings.ToLower(string(h.What))
		lift = append(lift, "`reelay resume "+what+"`")
		stopped = append(stopped, map[models.HaltTarget]string{models.HaltSchedules: "no slot of a schedule fires",
			models.HaltLeases: "no waiting job starts"}[h.What])
		halted = append(halted, fmt.Sprintf("%s halted %s %s: %s", h.By, strings.ToLower(string(h.What)), text.Since(h.Since, s.Now),
			text.Printable(h.Reason)))
	}
	for _, a := range away {
		absent = append(absent, fmt.Sprintf("no %s process for %s", a.Kind, text.Seconds(math.Round(a.Seconds))))
	}
	silent := Advise("silent-workers", "A silent worker is declared lost within minutes.",
		when(len(s.SilentWorkers) > 0, "These workers have sent nothing for five minutes or more."),
		"They count as capacity but do no work, so the scaler starts too few machines.", "Start control, which declares them lost.")
	silent.IDs, silent.Count = s.SilentWorkers[:min(len(s.SilentWorkers), checkupIDs)], len(s.SilentWorkers)
	return []Finding{
		Advise("presence", "At least one api and one control process run.",
			when(len(absent) > 0, "There was %s.", strings.Join(absent, ", and ")),
			"Without api no request is answered. Without control no job is retried, no message is sent, and no expired lease is reaped.",
			"Start the processes; run two of each."),
		Advise("halts", "Nothing is halted.",
			when(len(halted) > 0, "%s.", strings.Join(halted, "; ")),
			"Until an operator lifts the halt, "+strings.Join(stopped, " and ")+".",
			"If the reason is gone, run "+strings.Join(lift, " and ")+"."),
		Advise("outbox", "Messages leave the outbox within a minute.",
			when(s.OldestMessage > outboxLimit.Seconds(), "The oldest of %d messages is %s old.", s.Messages,
				text.Seconds(math.Round(s.OldestMessage))),
			"Jobs start seconds late, because only the periodic sweep finds them.",
			"Check that control runs and that Redis answers. The log of control says what the queue refused."),
		silent,
		Advise("dead-letters", "No dead letters are open.",
			when(s.DeadLetters > 0, "%d are open.", s.DeadLetters),
			"These jobs failed for good, not through their owners' fault. They wait for an operator's decision.",
			"Run `reelay dead-letters`, or open the page Dead letters of the console, and redrive or discard them (docs/operators/dead-letters.md)."),
		Advise("object-deletions", "Objects that are no longer needed can be deleted.",
			when(s.Undeletable > 0, "%d could not be deleted after many tries.", s.Undeletable),
			"They cost money, and what a customer deleted is still there.",
			"Check that the credentials may delete objects and that no retention policy of the bucket forbids it."),
		Advise("event-partitions", "The partition for next month's events exists.",
			when(!s.NextMonth, "It does not."),
			"Next month's events go to the default partition, which is never dropped whole.",
			"Check that control runs: it creates partitions hourly."),
	}
}

// settings is how PostgreSQL is set up.
func settings(s *models.Surroundings, server regions.Server, drift time.Duration) []Finding {
	var off []string
	for _, setting := range []struct{ name, value string }{
		{"fsync", s.Fsync}, {"full_page_writes", s.FullPageWrites}, {"synchronous_commit", s.SynchronousCommit},
	} {
		if setting.value == "off" {
			off = append(off, setting.name)
		}
	}
	indexes := Advise("indexes", "Every index is valid.",
		when(len(s.InvalidIndexes) > 0, "These are invalid, or still being built."),
		"Queries do not use them, and a unique one does not prevent duplicates.", "Run REINDEX INDEX CONCURRENTLY on each.")
	indexes.IDs, indexes.Count = s.InvalidIndexes, len(s.InvalidIndexes)
	stuck := Advise("commits", "The standbys for which commits wait follow.", server.Stuck(),
		"Nothing is accepted, and nothing that runs is recorded, until a standby confirms it. Each request that writes hangs.", regions.UnstickFix)
	if stuck.Level != LevelOK {
		stuck.Level = LevelBroken
	}
	async := lo.CountBy(server.Standbys, func(s regions.Standby) bool { return s.State == "async" })
	return []Finding{
		indexes,
		stuck,
		Advise("durability", "PostgreSQL writes commits to disk before it acknowledges them.",
			when(len(off) > 0, "These settings are off: %s.", strings.Join(off, ", ")),
			"If its machine fails, accepted jobs are lost, or the whole database.",
			"Switch on fsync, full_page_writes and synchronous_commit in postgresql.conf."),
		Advise("standby", "A failover loses no acknowledged commit.",
			when(async > 0 && stuck.Level == LevelOK, "Commits do not wait for %s.", text.Count(async, "standby")),
			"If one of them takes over, the newest jobs and results are lost although clients were told that they are safe.",
			"Name them in synchronous_standby_names as pg_stat_replication does (application_name), or accept the risk: docs/operators/regions.md, Set it up."),
		Advise("postgres-version", fmt.Sprintf("PostgreSQL is version %d or newer.", oldestPostgres),
			when(s.Version < oldestPostgres, "It is version %d.", s.Version),
			"Reelay is not tested with it.", "Upgrade PostgreSQL."),
		Advise("connections", "PostgreSQL has connections to spare.",
			when(s.Connections*10 > s.MaxConnections*9, "%d of %d are in use.", s.Connections, s.MaxConnections),
			"PostgreSQL refuses the next process, or your psql.",
			"Raise max_connections, lower REELAY_DATABASE_CONNECTIONS, or use a connection pooler."),
		Advise("clock", "This machine's clock agrees with PostgreSQL's.",
			when(drift > driftLimit, "They are %s apart.", text.Duration(drift.Round(time.Second))),
			"Leases, due times and links follow PostgreSQL's clock; asynq's own leases, and Google's check of when a link begins, follow this machine's.",
			"Run an NTP client on both machines."),
	}
}

// indexHeads is how many heads of queues are compared.
const indexHeads = 1000

// index compares the ready index with what is queued.
func (d *Doctor) index(ctx context.Context) (Finding, error) {
	const holds = "The ready index holds what is due next, and nothing that is not queued."
	first, err := backlog.ListQueuedJobs(ctx, d.DB, 1)
	if err != nil {
		return Finding{}, err
	}
	lines := map[models.Line][]models.Queue{}
	for _, job := range first {
		if !slices.Contains(lines[job.Line], job.Queue) {
			lines[job.Line] = append(lines[job.Line], job.Queue)
		}
	}
	var due []backlog.QueuedJob
	var hints []jobs.ReadyJob
	for _, queues := range lines {
		next, err := backlog.NextJobs(ctx, d.DB, queues, nil, nil, indexHeads)
		if err != nil {
			return Finding{}, err
		}
		hinted, lost := d.Index.First(ctx, queues, nil, 2*indexHeads)
		if lost != nil {
			return Advise("ready-index", holds, "The index is lost, or Redis does not answer.",
				"Leases come from PostgreSQL alone: slower, never wrong.",
				"Check that Redis runs and can be reached. Control then rebuilds the index within seconds."), nil
		}
		due, hints = append(due, next...), append(hints, hinted...)
	}
	missing, stale, err := d.differences(ctx, due, hints)
	if err != nil {
		return Finding{}, err
	}
	return Advise("ready-index", holds,
		when(missing+stale > 0, "%d jobs that are due are missing, and %d are there that are not queued.", missing, stale),
		"Nothing is lost: a sweep adds missing jobs every 5 s, and claims drop stale ones.",
		"None if the next check is clean. Otherwise check that control runs."), nil
}

// differences counts the jobs that are due and not hinted at, and the hints at
// jobs that are not queued.
func (d *Doctor) differences(ctx context.Context, due []backlog.QueuedJob, hints []jobs.ReadyJob) (missing, stale int, err error) {
	all := make([]models.JobID, 0, len(due)+len(hints))
	hinted := map[models.JobID]bool{}
	for _, hint := range hints {
		all, hinted[hint.ID] = append(all, hint.ID), true
	}
	for _, job := range due {
		all = append(all, job.ID)
	}
	// Some were leased since they were read.
	still, err := models.ListStillQueued(ctx, d.DB, all)
	if err != nil {
		return 0, 0, err
	}
	queued := map[models.JobID]bool{}
	for _, id := range still {
		queued[id] = true
	}
	for _, job := range due {
		missing += lo.Ternary(queued[job.ID] && !hinted[job.ID], 1, 0)
	}
	for _, hint := range hints {
		stale += lo.Ternary(!queued[hint.ID], 1, 0)
	}
	return missing, stale, nil
}
