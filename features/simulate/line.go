package simulate

import (
	"cmp"
	"slices"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/fairqueue"
	"github.com/reelay/reelay/models"
)

// lines contains the queued jobs, in the order of [fairqueue].
type lines struct {
	turns fairqueue.Turns
	byKey map[models.Line]*line
	// classes is how many classes of jobs there are: see job.class.
	classes int
}

// line is one queue of a lane, with the accounts that wait in it, in their order.
type line struct {
	models.Line
	flows   []*place
	reached float64 // the greatest virtual time of any account
}

// account is an account that submits jobs.
type account struct {
	tier                models.Tier
	running, maxRunning int
	places              []*place
}

// place is an account in a line.
type place struct {
	fairqueue.Share
	*account
	line     *line
	queues   [][]*job // by class, each in its order
	queued   int
	first    int64 // the least order of its jobs
	eligible bool
}

func newLines(classes int) *lines {
	return &lines{turns: fairqueue.Turns{}, byKey: map[models.Line]*line{}, classes: classes}
}

func newAccount(tier models.Tier) *account {
	return &account{tier: tier, maxRunning: jobs.Policies[tier].MaxRunning}
}

// at returns the account's place in a line.
func (l *lines) at(a *account, key models.Line) *place {
	for _, p := range a.places {
		if p.line.Line == key {
			return p
		}
	}
	in := l.byKey[key]
	if in == nil {
		in = &line{Line: key}
		l.byKey[key] = in
	}
	p := &place{Share: fairqueue.Share{Weight: 1}, account: a, line: in, queues: make([][]*job, l.classes)}
	a.places = append(a.places, p)
	return p
}

func compareJobs(a, b *job) int { return cmp.Compare(a.order, b.order) }

// add queues a job in a line.
func (l *lines) add(j *job, key models.Line) {
	p := l.at(j.account, key)
	p.leave()
	if p.queued == 0 {
		p.Enter(p.line.time())
	}
	q := &p.queues[j.class()]
	i, _ := slices.BinarySearchFunc(*q, j, compareJobs)
	*q = slices.Insert(*q, i, j)
	p.queued++
	j.place = p
	p.enter()
}

// remove takes a job out of its line.
func (l *lines) remove(j *job) {
	p := j.place
	p.leave()
	q := &p.queues[j.class()]
	i, _ := slices.BinarySearchFunc(*q, j, compareJobs)
	if i == 0 {
		*q = (*q)[1:]
	} else {
		*q = slices.Delete(*q, i, i+1)
	}
	p.queued--
	j.place = nil
	p.enter()
}

// start takes a job out of its line because a worker has taken it.
func (l *lines) start(j *job) {
	p := j.place
	l.remove(j)
	p.leave()
	p.Advance(j.kind.estimate)
	p.line.reached = max(p.line.reached, p.VirtualTime)
	l.turns.Start(p.line.Line)
	p.enter()
	for _, other := range j.account.places {
		other.leave()
	}
	j.account.running++
	for _, other := range j.account.places {
		other.enter()
	}
}

// release ends a running job of an account. An account that falls below its limit enters its queues
// again.
func (l *lines) release(a *account) {
	a.running--
	for _, p := range a.places {
		if a.running == a.maxRunning-1 && p.queued > 0 {
			p.Enter(p.line.time())
		}
		p.enter()
	}
}

// next returns the job that a worker of the pool takes, or nil. cost returns the cost of a model
// for the worker.
func (l *lines) next(of *pool, cost func(model int) int) *job {
	for _, lane := range models.Tiers {
		if !of.offer.ServesLane(lane) {
			continue
		}
		turn := l.turns.Promoted(lane)
		for _, promoted := range []bool{turn, !turn} {
			in := l.byKey[models.Line{Lane: lane, Promoted: promoted}]
			if in == nil {
				continue
			}
			var heads []*job
			for _, p := range in.flows {
				if j := p.head(of.serves); j != nil {
					if heads = append(heads, j); len(heads) == fairqueue.Window {
						break
					}
				}
			}
			if len(heads) == 0 {
				continue
			}
			if cost != nil {
				fairqueue.Choose(heads, func(j *job) float64 { return j.place.VirtualTime }, func(j *job) int { return cost(j.kind.model) })
			}
			return heads[0]
		}
	}
	return nil
}

// head returns the account's first job that a worker can run, or nil.
func (p *place) head(serves []bool) (first *job) {
	for class, q := range p.queues {
		if len(q) > 0 && serves[class] && (first == nil || q[0].order < first.order) {
			first = q[0]
		}
	}
	return first
}

// time returns the virtual time of the line.
func (l *line) time() float64 {
	if len(l.flows) == 0 {
		return fairqueue.LineTime(nil, l.reached)
	}
	return l.flows[0].VirtualTime // the least
}

func comparePlaces(a, b *place) int {
	return cmp.Or(cmp.Compare(a.VirtualTime, b.VirtualTime), cmp.Compare(a.first, b.first))
}

// leave removes the account from the line's order while its place changes.
func (p *place) leave() {
	if p.eligible {
		i, _ := slices.BinarySearchFunc(p.line.flows, p, comparePlaces)
		p.line.flows = slices.Delete(p.line.flows, i, i+1)
		p.eligible = false
	}
}

// enter adds the account to the line's order, if it waits there.
func (p *place) enter() {
	if p.eligible || !fairqueue.Eligible(p.queued, p.running, p.maxRunning) {
		return
	}
	first := (*job)(nil)
	for _, q := range p.queues {
		if len(q) > 0 && (first == nil || q[0].order < first.order) {
			first = q[0]
		}
	}
	p.first, p.eligible = first.order, true
	i, _ := slices.BinarySearchFunc(p.line.flows, p, comparePlaces)
	p.line.flows = slices.Insert(p.line.flows, i, p)
}
