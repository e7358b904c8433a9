package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/uptrace/bun/dialect/pgdialect"
)

// The jobs of a run with waves of reclamation: one step takes a second, and a checkpoint follows
// each reclaimInterval steps.
const (
	reclaimStep     = time.Second
	reclaimInterval = 10
	reclaimSteps    = 90 // and up to a third more
)

// waveLimit is how long the fleet may take to hold jobs before a wave, and to recover after it.
const waveLimit = 3 * time.Minute

// wave is the loss of a part of the fleet at once, and what followed.
type wave struct {
	Name string
	// Gone is how many agents were lost, and Interrupted how many of their attempts were.
	Gone, Interrupted int
	// Resumed is how many of their jobs resumed from a checkpoint, Again how many began again, and
	// Over how many ended meanwhile, because they were cancelled.
	Resumed, Again, Over int
	// WorkLost is the work of each job, in seconds, that had to be done again.
	WorkLost *recovery
	// Running is how long each job waited from the loss, or the notice of it, until it ran again.
	Running *recovery
	// Boot is how long the replacements took from the end of a machine to a registered worker.
	Boot *recovery
	// RefusedStarts is how many registrations were refused or failed.
	RefusedStarts int
	// Peak is the largest number of requests to the api in a second, Before the mean of the ten
	// seconds before the wave.
	Peak, Before int

	plan         plan
	began, ended time.Time
	leased       []leased
	machines     map[string]*machine // that went
}

// plan says what a wave does.
type plan struct {
	name   string
	share  float64       // of the fleet that goes
	within time.Duration // the time in which it goes
	notice bool          // whether its machines get a notice
	busy   float64       // the share of the fleet that has jobs; the rest is warm and waits
	target float64       // seconds from the loss to RUNNING, p95; 0 is none
}

// plans returns the waves of a run: one with notice while other workers wait, those without
// notice, and one with notice while no worker waits.
func plans(waves int) []plan {
	all := []plan{{name: "notice, warm spares", share: 0.25, within: 15 * time.Second, notice: true, busy: 0.6, target: 3}}
	for i := range waves {
		all = append(all, plan{name: fmt.Sprintf("killed, %d", i+1), share: 0.7, within: 3 * time.Second, busy: 1})
	}
	return append(all, plan{name: "notice, no spare", share: 0.7, within: 3 * time.Second, notice: true, busy: 1})
}

// leased is an attempt that a machine holds before a wave, and the newest step that it reported.
type leased struct {
	Attempt, Instance string
	Step              int
	At                time.Time
}

// reclaim runs all waves under load.
func (s *soak) reclaim(ctx context.Context) error {
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	go s.watch.run(watching)
	loading, unload := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { s.load.run(loading, s.random(1)) })
	running.Go(func() { s.printProgress(loading) })
	defer running.Wait()
	defer unload()
	random := s.random(3)
	for _, p := range plans(s.Reclaim) {
		s.load.want.Store(int64(p.busy * float64(s.Agents)))
		if err := s.await(ctx, "the fleet holds jobs", func() (bool, error) { return s.full(ctx, p) }); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		w, err := s.wave(ctx, p, random)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		s.waves = append(s.waves, w)
		fmt.Fprintf(os.Stderr, "chaos: %5s %s: %d agents were gone, and all jobs run again after %s\n",
			rounded(time.Since(s.began)), w.Name, w.Gone, rounded(w.ended.Sub(w.began)))
	}
	s.faultsEnded = time.Now()
	return nil
}

// await looks every 200 ms until done, up to waveLimit.
func (s *soak) await(ctx context.Context, what string, done func() (bool, error)) error {
	for limit := time.Now().Add(waveLimit); ctx.Err() == nil; sleep(ctx, 200*time.Millisecond) {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		if time.Now().After(limit) {
			return fmt.Errorf("after %s it was not true that %s", waveLimit, what)
		}
	}
	return context.Cause(ctx)
}

// full reports whether nine tenths of the workers that should be busy hold a job with a checkpoint
// of their own, and the rest waits.
func (s *soak) full(ctx context.Context, p plan) (bool, error) {
	var saved, idle int
	err := s.stack.db.NewRaw(`
		SELECT (SELECT count(*) FROM job_attempts WHERE ended_at IS NULL AND checkpoint_id IS NOT NULL),
			(SELECT count(*) FROM workers WHERE status = 'IDLE')`).Scan(ctx, &saved, &idle)
	busy := p.busy * float64(s.Agents)
	return float64(saved) >= 0.9*busy && float64(idle) >= 0.9*(float64(s.Agents)-busy) && s.fleet.size() == s.Agents, err
}

// wave takes machines away and waits until all their jobs run elsewhere.
func (s *soak) wave(ctx context.Context, p plan, random *rand.Rand) (*wave, error) {
	held, err := s.holdings(ctx)
	if err != nil {
		return nil, err
	}
	w := &wave{Name: p.name, plan: p, leased: held, began: time.Now(), Before: s.stack.requests.mean(time.Now(), 10)}
	w.machines = s.hit(ctx, p, random, held)
	w.Gone = len(w.machines)
	attempts := map[string]*machine{} // of those that are lost
	for _, h := range held {
		if m := w.machines[h.Instance]; m != nil {
			attempts[h.Attempt] = m
		}
	}
	ids := sortedKeys(attempts)
	err = s.await(ctx, "every job runs again", func() (over bool, err error) {
		err = s.stack.db.NewRaw(`
			SELECT NOT EXISTS (
				SELECT FROM job_attempts a JOIN jobs j ON j.id = a.job_id
				WHERE a.id = ANY (?::uuid[]) AND NOT (a.ended_at IS NOT NULL AND (j.completed_at IS NOT NULL OR EXISTS (
					SELECT FROM job_attempts b WHERE b.job_id = a.job_id AND b.attempt_no > a.attempt_no AND b.started_at IS NOT NULL))))`,
			pgdialect.Array(ids)).Scan(ctx, &over)
		return over, err
	})
	if err != nil {
		return nil, err
	}
	if err := s.await(ctx, "all agents are replaced", func() (bool, error) { return s.fleet.size() == s.Agents, nil }); err != nil {
		return nil, err
	}
	w.ended = time.Now()
	w.Peak = s.stack.requests.peak(w.began, w.ended)
	w.RefusedStarts = s.refusedStarts(w.began, w.ended)
	return w, s.measureBoots(ctx, w)
}

// holdings returns what all machines hold.
func (s *soak) holdings(ctx context.Context) (held []leased, err error) {
	err = s.stack.db.NewRaw(`
		SELECT a.id AS attempt, w.provider_instance_id AS instance, coalesce(j.step, 0) AS step, coalesce(j.progress_at, a.leased_at) AS at
		FROM job_attempts a JOIN workers w ON w.id = a.worker_id JOIN jobs j ON j.id = a.job_id
		WHERE a.ended_at IS NULL`).Scan(ctx, &held)
	return held, err
}

// hit takes away machines that hold jobs, and returns them by instance.
func (s *soak) hit(ctx context.Context, p plan, random *rand.Rand, held []leased) map[string]*machine {
	busy, hit := map[string]bool{}, map[string]*machine{}
	for _, h := range held {
		busy[h.Instance] = true
	}
	var wait sync.WaitGroup
	for range int(p.share * float64(s.Agents)) {
		m := s.fleet.claim(random, busy)
		if m == nil {
			break
		}
		hit[m.instance] = m
		delay := time.Duration(random.Int64N(int64(p.within)))
		wait.Go(func() {
			sleep(ctx, delay)
			if p.notice {
				m.preempt()
				return
			}
			m.kill()
			s.met.add(metKillAgent, 1)
		})
	}
	wait.Wait()
	s.met.add(metMass, 1)
	return hit
}

// outcome is what became of a job whose machine was lost.
type outcome struct {
	Attempt, Status string
	Next            time.Time // when its next attempt ran, or zero
	From            *int      // the step from which that one resumed
}

// measure fills in what became of the jobs of a wave, once they have ended.
func (s *soak) measure(ctx context.Context, w *wave) error {
	var rows []outcome
	err := s.stack.db.NewRaw(`
		SELECT a.id AS attempt, a.status, coalesce(b.started_at, 'epoch') AS next, b.resumed_from_step AS from
		FROM job_attempts a LEFT JOIN job_attempts b ON b.job_id = a.job_id AND b.run = a.run AND b.attempt_no = a.attempt_no + 1
		WHERE a.ended_at BETWEEN ? AND ?`, w.began, w.ended).Scan(ctx, &rows)
	if err != nil {
		return fmt.Errorf("read the attempts: %w", err)
	}
	byAttempt := map[string]outcome{}
	for _, row := range rows {
		byAttempt[row.Attempt] = row
	}
	w.count(byAttempt)
	return nil
}

// measureBoots fills in how long the replacements of the machines took.
func (s *soak) measureBoots(ctx context.Context, w *wave) error {
	machines := s.fleet.booted(w.began)
	var rows []struct {
		Instance string
		At       time.Time
	}
	err := s.stack.db.NewRaw("SELECT provider_instance_id AS instance, registered_at AS at FROM workers WHERE provider_instance_id = ANY (?::text[])",
		pgdialect.Array(sortedKeys(machines))).Scan(ctx, &rows)
	if err != nil {
		return err
	}
	w.Boot = &recovery{}
	for _, row := range rows {
		w.Boot.add(row.At.Sub(machines[row.Instance].instead))
	}
	w.Boot.close()
	return nil
}

// count sums up what became of the attempts that the machines held.
func (w *wave) count(became map[string]outcome) {
	w.WorkLost, w.Running = &recovery{Target: reclaimInterval}, &recovery{Target: w.plan.target}
	for _, h := range w.leased {
		m, o := w.machines[h.Instance], became[h.Attempt]
		if m == nil || o.Status != "LOST" && o.Status != "RELEASED" {
			continue // it went on, or its job ended first
		}
		w.Interrupted++
		if o.Next.Unix() <= 0 {
			w.Over++
			continue
		}
		at := m.lostAt()
		w.Running.add(o.Next.Sub(at))
		from := 0
		if o.From != nil {
			from = *o.From
			w.Resumed++
		} else {
			w.Again++
		}
		// It went on from the step that it reported until it was lost.
		done := time.Duration(h.Step)*reclaimStep + at.Sub(h.At)
		w.WorkLost.add(max(0, done-time.Duration(from)*reclaimStep))
	}
	w.WorkLost.close()
	w.Running.close()
}
