package estimate

import (
	"cmp"
	"container/heap"
	"math"
	"slices"

	"github.com/reelay/reelay/jobs/fairqueue"
	"github.com/reelay/reelay/models"
)

// playStarts is how many jobs' starts are played: more would cost a process that
// serves too much of each second.
const playStarts = 1000

// playMoments bounds what is played where jobs come in, but hardly any of them
// can start.
const playMoments = 100_000

// start is a moment at which a worker takes a job, or finds none.
type start struct {
	at    float64
	class *class
	// idle tells that there was no job for it; else the rest is of the job.
	idle bool
	models.Line
	lane    models.Tier
	tag     float64
	account models.AccountID
	place   int // among the account's jobs in the line
	end     float64
	// turn tells that it was a promoted job's turn.
	turn bool
	// fresh tells that it came in meanwhile, and alone that nothing of what was
	// there at the beginning waited in its line then: who waits there longer goes
	// first.
	fresh, alone bool
}

// after tells whether that job, with that virtual start, would have been taken in
// place of this one, or is it.
func (s start) after(q query, tag float64) bool {
	switch {
	case s.idle || q.Lane.Above(s.lane):
		return true
	case s.lane != q.Lane:
		return false
	case s.Promoted != q.Promoted:
		return s.turn == q.Promoted
	case s.account == q.account && s.account != "":
		return s.place >= q.ownAhead
	}
	return s.tag > tag || s.alone || s.fresh && s.tag == tag
}

// player plays an outlook forward.
type player struct {
	*Outlook
	lines   []*playedLine
	running map[models.AccountID]int
	turns   fairqueue.Turns
	// standing is scratch space of lineTime, which is called at each moment.
	standing []float64
	moments  moments
	hands    int
	idle     []*playedHand
	now      float64
}

// playedLine is a line as it goes on: place is the next job's.
type playedLine struct {
	line
	place int
	end   int
	// taken are places behind place whose jobs were started: a worker passes over
	// what it cannot run.
	taken   map[int]bool
	comings []*coming
	came    []*coming // one for each job behind those that are queued
	alone   bool      // see start
}

// coming is jobs of one model that come into a line.
type coming struct {
	load
	gap float64 // seconds between two
}

// standsAt is the place of the line's account in the fair order.
func (l *playedLine) standsAt() fairqueue.Place {
	return fairqueue.Place{Line: l.Line, VirtualTime: l.VirtualTime}
}

// reaches is behind how many jobs of an account that it cannot run a worker is
// seen to find one.
const reaches = standbySample

// job is the line's job of that place.
func (l *playedLine) job(place int) load {
	if place < l.queued {
		return l.at(place)
	}
	return l.came[place-l.queued].load
}

// seek returns the place of the line's first job that a worker may take, or -1.
func (l *playedLine) seek(may func(models.Queue) bool) int {
	for place := l.place; place < min(l.end, l.place+reaches); place++ {
		if !l.taken[place] && may(l.job(place).Queue) {
			return place
		}
	}
	return -1
}

// take starts the job of that place.
func (l *playedLine) take(place int) {
	if l.taken == nil {
		l.taken = map[int]bool{}
	}
	l.taken[place] = true
	for l.taken[l.place] {
		delete(l.taken, l.place)
		l.place++
	}
}

type playedHand struct {
	class *class
	holds models.AccountID
	told  bool // that it is idle
}

// moment is when a worker is free, or a job comes into a line.
type moment struct {
	at    float64
	order int
	hand  *playedHand
	line  *playedLine
	comes *coming
}

type moments []moment

func (m moments) Len() int { return len(m) }

func (m moments) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(m[i].at, m[j].at), cmp.Compare(m[i].order, m[j].order)) < 0
}

func (m moments) Swap(i, j int) { m[i], m[j] = m[j], m[i] }

func (m *moments) Push(x any) { *m = append(*m, x.(moment)) }

func (m *moments) Pop() any {
	last := (*m)[len(*m)-1]
	*m = (*m)[:len(*m)-1]
	return last
}

// play fills starts: until all that is queued was started and there was a worker
// of each class without work, or nothing more can start, or playStarts.
func (o *Outlook) play() {
	p := &player{Outlook: o, running: map[models.AccountID]int{}, turns: fairqueue.Turns{}}
	for lane, state := range o.lanes {
		p.turns[lane] = state.SincePromoted
	}
	o.course = course{}
	p.enlist()
	p.employ()
	bored := map[*class]bool{}
	for played := 0; len(p.moments) > 0 && played < playMoments && len(o.starts) < playStarts && (p.left > 0 || len(bored) < len(o.classes)); played++ {
		m := heap.Pop(&p.moments).(moment)
		p.now = m.at
		if m.hand != nil {
			if m.hand.holds != "" {
				p.leave(m.hand.holds)
			}
			m.hand.holds = ""
			p.idle = append(p.idle, m.hand)
		} else {
			p.arrive(m.line, m.comes)
		}
		if len(p.moments) > 0 && p.moments[0].at == p.now {
			continue // all of a moment first
		}
		p.idle = slices.DeleteFunc(p.idle, p.work)
		for _, h := range p.idle {
			if !h.told {
				h.told, bored[h.class] = true, true
				o.starts = append(o.starts, start{at: p.now, class: h.class, idle: true})
			}
		}
		if len(p.idle) == p.hands && !p.awaits() {
			return
		}
	}
}

// awaits tells whether an idle worker will take one of the jobs that come in.
func (p *player) awaits() bool {
	return slices.ContainsFunc(p.lines, func(l *playedLine) bool {
		if len(l.comings) == 0 || l.seek(p.unpaused) >= 0 || p.running[l.account] >= l.maxRunning {
			return false
		}
		return slices.ContainsFunc(l.comings, func(c *coming) bool {
			return p.unpaused(c.Queue) && slices.ContainsFunc(p.idle, func(h *playedHand) bool { return h.class.Serves(c.Queue) })
		})
	})
}

func (p *player) unpaused(q models.Queue) bool { return !p.paused(q) }

// employ lets the workers come free: thousands, so that they are put in order at once.
func (p *player) employ() {
	for _, c := range p.classes {
		p.hands += len(c.hands)
	}
	all := make([]playedHand, 0, p.hands)
	p.moments = slices.Grow(p.moments, p.hands)
	for _, c := range p.classes {
		for _, h := range c.hands {
			if h.account != "" {
				p.running[h.account]++
			}
			all = append(all, playedHand{class: c, holds: h.account})
			p.moments = append(p.moments, moment{at: h.free, order: len(p.moments), hand: &all[len(all)-1]})
		}
	}
	heap.Init(&p.moments)
}

func (p *player) push(m moment) {
	m.order = len(p.moments) + len(p.starts)
	heap.Push(&p.moments, m)
}

// enlist makes the lines, and those of accounts that have none now.
func (p *player) enlist() {
	byPlace := map[models.Line]map[models.AccountID]*playedLine{}
	put := func(l *playedLine) {
		if byPlace[l.Line] == nil {
			byPlace[l.Line] = map[models.AccountID]*playedLine{}
		}
		byPlace[l.Line][l.account] = l
		p.lines = append(p.lines, l)
	}
	for _, l := range p.Outlook.lines {
		put(&playedLine{line: *l, end: l.queued})
		p.left += l.queued
	}
	for i, a := range p.arrivals {
		if a.JobsPerSecond <= 0 {
			continue
		}
		job := load{
			Queue: models.Queue{Line: models.Line{Lane: a.Tier}, Model: a.Model}, kind: models.Kind{Model: a.Model}, gpuSeconds: a.GPUSeconds,
		}
		l := byPlace[job.Line][a.AccountID]
		if l == nil {
			l = &playedLine{line: line{
				Line: job.Line, account: a.AccountID, Share: fairqueue.Share{VirtualTime: a.VirtualTime, Weight: a.Weight}, running: a.Running, maxRunning: a.MaxRunning,
			}}
			put(l)
		}
		c := &coming{load: job, gap: 1 / a.JobsPerSecond}
		l.comings = append(l.comings, c)
		// The golden ratio spreads the first jobs out.
		_, phase := math.Modf(float64(i+1) * math.Phi)
		p.push(moment{at: c.gap * phase, line: l, comes: c})
	}
}

// arrive puts one more job into a line.
func (p *player) arrive(l *playedLine, c *coming) {
	if l.place == l.end {
		l.Enter(p.lineTime(l.Line))
		l.alone = !slices.ContainsFunc(p.lines, func(other *playedLine) bool {
			return other.Line == l.Line && other.place < other.end && !other.alone
		})
	}
	l.came = append(l.came, c)
	l.end++
	p.push(moment{at: p.now + c.gap, line: l, comes: c})
}

func (p *player) lineTime(of models.Line) float64 {
	p.standing = p.standing[:0]
	for _, l := range p.lines {
		if l.Line == of && p.stands(l) {
			p.standing = append(p.standing, l.VirtualTime)
		}
	}
	return fairqueue.LineTime(p.standing, 0)
}

func (p *player) stands(l *playedLine) bool {
	return fairqueue.Stands(l.end-l.place, p.running[l.account], l.maxRunning)
}

// leave ends a job of the account's. One that leaves its cap by it returns to its
// lines at their own time.
func (p *player) leave(account models.AccountID) {
	p.running[account]--
	for _, l := range p.lines {
		if l.account == account && l.place < l.end && p.running[account] == l.maxRunning-1 {
			p.running[account]++ // not counted itself
			at := p.lineTime(l.Line)
			p.running[account]--
			l.Enter(at)
		}
	}
}

// work gives an idle worker its next job, and tells whether there was one.
func (p *player) work(h *playedHand) bool {
	l, place, turn := p.next(h.class)
	if l == nil {
		return false
	}
	job := l.job(place)
	seconds := p.times.Ratio(job.kind, h.class.gpuType) * job.gpuSeconds
	p.starts = append(p.starts, start{
		at: p.now, class: h.class, Line: l.Line, lane: l.Lane, tag: l.VirtualTime, account: l.account, end: p.now + seconds, turn: turn,
		place: place, fresh: place >= l.queued, alone: l.alone,
	})
	if place < l.queued {
		p.left--
		p.cleared = p.now
	}
	l.take(place)
	l.Advance(job.gpuSeconds)
	p.turns.Start(l.Line)
	p.running[l.account]++
	h.holds, h.told = l.account, false
	p.push(moment{at: p.now + seconds, hand: h})
	return true
}

// next is the line whose job a worker of that class takes, which of its jobs, and
// whether it was a promoted job's turn.
func (p *player) next(c *class) (best *playedLine, at int, turn bool) {
	may := func(q models.Queue) bool { return c.Serves(q) && !p.paused(q) }
	for _, l := range p.lines {
		if !p.stands(l) || best != nil && p.turns.Compare(l.standsAt(), best.standsAt()) >= 0 {
			continue
		}
		if place := l.seek(may); place >= 0 {
			best, at = l, place
		}
	}
	return best, at, best != nil && p.turns.Promoted(best.Lane)
}
