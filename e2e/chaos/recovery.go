package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/reelay/reelay/jobs/lease"
)

// recovery holds the durations of all recoveries of one kind.
type recovery struct {
	Name   string
	Target float64 // seconds; 0: none
	N      int
	P50    float64
	P95    float64
	Max    float64

	// Slow describes those above the target, with the other faults at that time.
	Slow []string `json:",omitempty"`

	seconds []float64
}

func (r *recovery) add(d time.Duration) { r.seconds = append(r.seconds, d.Seconds()) }

// explain records what else happened during a recovery that took too long.
func (r *recovery) explain(s *soak, what string, from, until time.Time) {
	if r.Target == 0 || until.Sub(from).Seconds() <= r.Target {
		return
	}
	line := fmt.Sprintf("%.1f s from %s: %s;", until.Sub(from).Seconds(), from.UTC().Format("15:04:05"), what)
	for _, i := range s.faults.log {
		if end := i.At.Add(time.Duration(i.Lasted * float64(time.Second))); i.At.Before(until) && end.After(from) {
			line += fmt.Sprintf(" %s (%s, %+.0f s, %.0f s long)", i.Fault, i.Target, i.At.Sub(from).Seconds(), i.Lasted)
		}
	}
	r.Slow = append(r.Slow, line)
}

func (r *recovery) close() {
	slices.Sort(r.seconds)
	if r.N = len(r.seconds); r.N == 0 {
		return
	}
	at := func(share float64) float64 { return r.seconds[min(int(share*float64(r.N)), r.N-1)] }
	r.P50, r.P95, r.Max = at(0.5), at(0.95), r.seconds[r.N-1]
}

// leasedJob is one attempt as recorded in the database.
type leasedJob struct {
	Instance  string
	Job       string
	No        int
	LeasedAt  time.Time
	EndedAt   time.Time
	NextLease time.Time
}

// recoveries measures, for each fault that hit a worker or a store, the time until leases
// were granted again.
func (s *soak) recoveries(ctx context.Context) ([]*recovery, error) {
	var attempts []leasedJob
	err := s.stack.db.NewRaw(`
		SELECT w.provider_instance_id AS instance, a.job_id AS job, a.attempt_no AS no, a.leased_at, a.ended_at,
			coalesce(b.leased_at, 'epoch') AS next_lease
		FROM job_attempts a JOIN workers w ON w.id = a.worker_id
		LEFT JOIN job_attempts b ON b.job_id = a.job_id AND b.run = a.run AND b.attempt_no = a.attempt_no + 1
		WHERE a.ended_at IS NOT NULL ORDER BY a.leased_at`).Scan(ctx, &attempts)
	if err != nil {
		return nil, fmt.Errorf("read the attempts: %w", err)
	}
	byInstance := map[string][]leasedJob{}
	leases := make([]time.Time, 0, len(attempts))
	for _, a := range attempts {
		byInstance[a.Instance] = append(byInstance[a.Instance], a)
		leases = append(leases, a.LeasedAt)
	}
	gaps := s.gaps()
	silent := &recovery{Name: "worker lost without notice → next lease", Target: 36}
	inGap := &recovery{Name: "… while api, control or PostgreSQL had a gap"}
	short := &recovery{Name: "… while no other worker was free"}
	noticed := &recovery{Name: "notice to a worker → next lease", Target: 3}
	noticedGap := &recovery{Name: "… while something of ours was away, or no worker was free"}
	back := &recovery{Name: "agent crashed and back at once → next lease"}
	for _, m := range s.fleet.history() {
		for _, a := range byInstance[m.instance] {
			if !m.notice.IsZero() && a.LeasedAt.Before(m.notice) && a.EndedAt.After(m.notice) && !a.NextLease.Before(m.notice) {
				if s.anyAway(m.notice, a.NextLease) || s.watch.short(m.notice, a.NextLease) {
					noticedGap.add(a.NextLease.Sub(m.notice))
				} else {
					noticed.add(a.NextLease.Sub(m.notice))
					noticed.explain(s, m.instance+", job "+a.Job, m.notice, a.NextLease)
				}
			}
			if m.killed.IsZero() || !m.notice.IsZero() || !a.LeasedAt.Before(m.killed) || !a.EndedAt.After(m.killed) ||
				a.NextLease.Before(m.killed) {
				continue
			}
			took := a.NextLease.Sub(m.killed)
			switch {
			case m.sameAs != "":
				back.add(took)
			case overlaps(gaps, m.killed, a.NextLease):
				inGap.add(took)
			case s.watch.short(a.EndedAt, a.NextLease):
				short.add(took)
			default:
				silent.add(took)
				silent.explain(s, m.instance+", job "+a.Job, m.killed, a.NextLease)
			}
		}
	}
	redis := &recovery{Name: "Redis back, empty → leases flow", Target: 2}
	s.flow(redis, s.stack.redis, leases)
	postgres := &recovery{Name: "PostgreSQL back → leases flow", Target: 5}
	s.flow(postgres, s.stack.postgres, leases)
	all := []*recovery{silent, inGap, short, noticed, noticedGap, back, redis, postgres}
	for _, r := range all {
		r.close()
	}
	return all, nil
}

// flow measures the time from the end of each outage to the first lease after it, unless
// another outage also delayed it.
func (s *soak) flow(r *recovery, of *process, leases []time.Time) {
	for _, o := range of.away() {
		if o.until.IsZero() || o.until.After(s.faultsEnded) {
			continue
		}
		at, _ := slices.BinarySearchFunc(leases, o.until, time.Time.Compare)
		if at < len(leases) && !s.otherAway(of, o.until, leases[at]) {
			r.add(leases[at].Sub(o.until))
			r.explain(s, of.name, o.until, leases[at])
		}
	}
}

// otherAway reports whether PostgreSQL or all api processes were down between two moments.
func (s *soak) otherAway(but *process, from, until time.Time) bool {
	return but != s.stack.postgres && overlaps(s.stack.postgres.away(), from, until) || overlaps(common(s.stack.apis), from, until)
}

// gaps returns the times in which no lease may be reaped: no api, no control or no PostgreSQL
// ran for 5 s, as the servers or the soak saw it, and one lease after that.
func (s *soak) gaps() []outage {
	gaps := s.watch.lastingGaps()
	for _, group := range [][]*process{{s.stack.postgres}, s.stack.apis, s.stack.controls} {
		for _, o := range common(group) {
			if o.until.Sub(o.from) >= 4*time.Second {
				gaps = append(gaps, outage{o.from, o.until.Add(lease.LeaseTTL)})
			}
		}
	}
	return gaps
}

// common returns the times in which all of these were down at once.
func common(group []*process) []outage {
	all := group[0].away()
	for _, p := range group[1:] {
		var both []outage
		for _, a := range all {
			for _, b := range p.away() {
				from, until := a.from, a.until
				if b.from.After(from) {
					from = b.from
				}
				if b.until.Before(until) {
					until = b.until
				}
				if from.Before(until) {
					both = append(both, outage{from, until})
				}
			}
		}
		all = both
	}
	return all
}

func overlaps(gaps []outage, from, until time.Time) bool {
	return slices.ContainsFunc(gaps, func(g outage) bool { return g.from.Before(until) && g.until.After(from) })
}

// anyAway reports whether any process except Redis was down between two moments.
func (s *soak) anyAway(from, until time.Time) bool {
	for _, p := range s.stack.processes() {
		if p != s.stack.redis && overlaps(p.away(), from, until) {
			return true
		}
	}
	return false
}
