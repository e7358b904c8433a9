package estimate

import (
	"cmp"
	"container/heap"
	"maps"
	"math"
	"slices"

	"github.com/reelay/reelay/jobs/fairqueue"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
)

// maxStarts is how many starts are simulated. More would cost a serving process too much of each
// second.
const maxStarts = 1000

// maxMoments bounds a simulation in which jobs arrive but hardly any can start. maxLooks bounds
// how many jobs the workers examine, about a tenth of a second of a processor.
const (
	maxMoments = 100_000
	maxLooks   = 1_000_000
)

// start is a moment at which a worker takes a job, or finds none.
type start struct {
	at    float64
	class *class
	// idle means that the worker found no job. Otherwise the fields below describe the job. If
	// above is set, the worker is available only to jobs of lanes above that one.
	idle  bool
	above models.Tier
	models.Line
	tag     float64
	account models.AccountID
	place   int // among the account's jobs in the line
	end     float64
	// turn means that it was a promoted job's turn.
	turn bool
	// fresh means that the job arrived during the simulation. alone means that no job from the
	// beginning of the simulation waited in its queue when it arrived: such a job would have gone
	// first.
	fresh, alone bool
}

// after reports whether a job with that virtual start is this one, or would have been taken instead
// of it.
func (s start) after(q query, tag float64) bool {
	switch {
	case s.idle:
		return s.above == "" || q.Lane.Above(s.above)
	case s.Line != q.Line:
		return fairqueue.CompareLines(q.Line, s.Line, s.turn) < 0
	case s.account == q.account && s.account != "":
		return s.place >= q.ownAhead
	}
	return s.tag > tag || s.alone || s.fresh && s.tag == tag
}

// run simulates the future of a forecast.
type run struct {
	*Forecast
	lines   []*runLine
	running map[models.AccountID]int
	turns   fairqueue.Turns
	// virtualTimes is scratch space of lineTime, which runs at each moment.
	virtualTimes []float64
	moments      moments
	workers      int
	idle         []*runWorker
	// changed are the queues in which a job arrived or started since the idle workers last looked,
	// and ended means that a job ended. Nothing else can give a job to a worker that found none.
	changed, changing []*runLine
	ended, ending     bool
	looks             int // how many jobs the workers have examined
	// yielding are the workers whose first job may yield, those of the lowest lane first.
	yielding []*runWorker
	now      float64
}

// runLine is a line during the simulation. place is the place of its next job.
type runLine struct {
	line
	place int
	end   int
	// taken contains the places after place whose jobs have started, since a worker passes over
	// jobs that it cannot run.
	taken   map[int]bool
	comings []*coming
	came    []*coming // one for each job after the queued ones
	alone   bool      // see start
}

// coming describes jobs of one model that arrive in a line.
type coming struct {
	load
	gap float64 // seconds between two arrivals
}

// fairPlace returns the account's place in the fair order.
func (l *runLine) fairPlace() fairqueue.Place {
	return fairqueue.Place{Line: l.Line, VirtualTime: l.VirtualTime}
}

// reaches is how many jobs of an account a worker passes over because it cannot run them.
const reaches = standbySample

// job returns the line's job at a place.
func (l *runLine) job(place int) load {
	if place < l.queued {
		return l.at(place)
	}
	return l.came[place-l.queued].load
}

// seek returns the place of the first job that may accepts, or -1.
func (l *runLine) seek(may func(models.Queue) bool) int {
	for place := l.place; place < min(l.end, l.place+reaches); place++ {
		if !l.taken[place] && may(l.job(place).Queue) {
			return place
		}
	}
	return -1
}

// take starts the job at a place.
func (l *runLine) take(place int) {
	if l.taken == nil {
		l.taken = map[int]bool{}
	}
	l.taken[place] = true
	for l.taken[l.place] {
		delete(l.taken, l.place)
		l.place++
	}
}

type runWorker struct {
	class    *class
	account  models.AccountID
	recorded bool // starts contains the moment at which it became idle
	// until is when it will be free, or -1.
	until float64
	// yields is the lane of its job if that may yield. Once it has yielded, below is that lane,
	// interrupted the job's account, and rest how many seconds the job still needs.
	yields, below models.Tier
	interrupted   models.AccountID
	rest          float64
}

// moment is an event of the simulation: a worker becomes free, a job arrives in a queue, or the
// jobs of a lane are late.
type moment struct {
	at     float64
	order  int
	worker *runWorker
	line   *runLine
	comes  *coming
	late   models.Tier
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

// run simulates the future and fills starts. It ends when every queued job has started and each
// class has had an idle worker, when nothing more can start, or at one of the bounds above.
func (o *Forecast) run() { newRun(o).simulate() }

func newRun(o *Forecast) *run {
	return &run{Forecast: o, running: map[models.AccountID]int{}, turns: fairqueue.TurnsOf(slices.Collect(maps.Values(o.lanes))...)}
}

func (p *run) simulate() {
	o := p.Forecast
	o.course = course{}
	p.enlist()
	p.employ()
	p.lateMoments()
	bored, late := map[*class]bool{}, models.Tier("")
	for played := 0; len(p.moments) > 0 && played < maxMoments && p.looks < maxLooks && len(o.starts) < maxStarts &&
		(p.left > 0 || len(bored) < len(o.classes)); played++ {
		m := heap.Pop(&p.moments).(moment)
		p.now = m.at
		switch {
		case m.line != nil:
			p.arrive(m.line, m.comes)
		case m.late != "":
			late = m.late
		case m.at == m.worker.until: // otherwise its job has yielded
			p.free(m.worker)
		}
		if len(p.moments) > 0 && p.moments[0].at == p.now {
			continue // handle all events of a moment first
		}
		p.changed, p.changing = p.changing, p.changed[:0]
		p.ended, p.ending = p.ending, false
		p.idle = slices.DeleteFunc(p.idle, p.work)
		if late != "" {
			p.giveWay(late)
			late = ""
		}
		for _, h := range p.idle {
			if !h.recorded {
				h.recorded, bored[h.class] = true, true
				o.starts = append(o.starts, start{at: p.now, class: h.class, idle: true})
			}
		}
		if len(p.idle) == p.workers && !p.awaits() {
			return
		}
	}
}

// free ends a worker's job or boot.
func (p *run) free(h *runWorker) {
	if h.account != "" {
		p.leave(h.account)
	}
	h.account, h.yields, h.until = "", "", -1
	p.idle = append(p.idle, h)
}

// awaits reports whether an idle worker will take one of the arriving jobs.
func (p *run) awaits() bool {
	return slices.ContainsFunc(p.lines, func(l *runLine) bool {
		if len(l.comings) == 0 || l.seek(p.unpaused) >= 0 || p.running[l.account] >= l.maxRunning {
			return false
		}
		return slices.ContainsFunc(l.comings, func(c *coming) bool {
			return p.unpaused(c.Queue) && slices.ContainsFunc(p.idle, func(h *runWorker) bool { return h.class.Serves(c.Queue, l.account) })
		})
	})
}

func (p *run) unpaused(q models.Queue) bool { return !p.paused(q) }

// employ schedules when each worker becomes free. There are thousands, so they are put into the
// heap all at once.
func (p *run) employ() {
	for _, c := range p.classes {
		p.workers += len(c.workers)
	}
	all := make([]runWorker, 0, p.workers)
	p.moments = slices.Grow(p.moments, p.workers)
	for _, c := range p.classes {
		for _, h := range c.workers {
			if h.account != "" {
				p.running[h.account]++
			}
			all = append(all, runWorker{class: c, account: h.account, until: h.free, yields: h.yields})
			one := &all[len(all)-1]
			p.moments = append(p.moments, moment{at: h.free, order: len(p.moments), worker: one})
			if h.yields != "" {
				p.yielding = append(p.yielding, one)
			}
		}
	}
	heap.Init(&p.moments)
	slices.SortStableFunc(p.yielding, func(a, b *runWorker) int {
		return slices.Index(models.Tiers, b.yields) - slices.Index(models.Tiers, a.yields)
	})
}

func (p *run) push(m moment) {
	m.order = len(p.moments) + len(p.starts)
	heap.Push(&p.moments, m)
}

// enlist makes the lines, including those of accounts without queued jobs.
func (p *run) enlist() {
	byPlace := map[models.Line]map[models.AccountID]*runLine{}
	put := func(l *runLine) {
		if byPlace[l.Line] == nil {
			byPlace[l.Line] = map[models.AccountID]*runLine{}
		}
		byPlace[l.Line][l.account] = l
		p.lines = append(p.lines, l)
	}
	for _, l := range p.Forecast.lines {
		put(&runLine{line: *l, end: l.queued})
		p.left += l.queued
	}
	for i, a := range p.arrivals {
		if a.JobsPerSecond <= 0 {
			continue
		}
		job := load{
			Queue: models.Queue{Line: models.Line{Lane: a.Tier}, Model: a.Model}, kind: backlog.Kind{Model: a.Model}, gpuSeconds: a.GPUSeconds,
		}
		l := byPlace[job.Line][a.AccountID]
		if l == nil {
			l = &runLine{line: line{
				Line: job.Line, account: a.AccountID, Share: fairqueue.Share{VirtualTime: a.VirtualTime, Weight: a.Weight}, running: a.Running,
				maxRunning: a.MaxRunning,
			}}
			put(l)
		}
		c := &coming{load: job, gap: 1 / a.JobsPerSecond}
		l.comings = append(l.comings, c)
		// The golden ratio spreads the first arrivals evenly.
		_, phase := math.Modf(float64(i+1) * math.Phi)
		p.push(moment{at: c.gap * phase, line: l, comes: c})
	}
}

// arrive adds one job to a line.
func (p *run) arrive(l *runLine, c *coming) {
	if l.place == l.end {
		l.Enter(p.lineTime(l.Line))
		l.alone = !slices.ContainsFunc(p.lines, func(other *runLine) bool {
			return other.Line == l.Line && other.place < other.end && !other.alone
		})
	}
	l.came = append(l.came, c)
	l.end++
	p.changing = append(p.changing, l)
	p.push(moment{at: p.now + c.gap, line: l, comes: c})
}

func (p *run) lineTime(of models.Line) float64 {
	p.virtualTimes = p.virtualTimes[:0]
	for _, l := range p.lines {
		if l.Line == of && p.eligible(l) {
			p.virtualTimes = append(p.virtualTimes, l.VirtualTime)
		}
	}
	return fairqueue.LineTime(p.virtualTimes, 0)
}

func (p *run) eligible(l *runLine) bool {
	return fairqueue.Eligible(l.end-l.place, p.running[l.account], l.maxRunning)
}

// leave ends one of the account's running jobs. An account that falls below its limit re-enters its
// queues at their current virtual times.
func (p *run) leave(account models.AccountID) {
	p.running[account]--
	p.ending = true
	for _, l := range p.lines {
		if l.account == account && l.place < l.end && p.running[account] == l.maxRunning-1 {
			p.running[account]++ // so that lineTime does not count the account itself
			at := p.lineTime(l.Line)
			p.running[account]--
			l.Enter(at)
		}
	}
}

// work gives an idle worker its next job, and reports whether there was one.
func (p *run) work(h *runWorker) bool {
	lines := p.lines
	if h.recorded && !p.ended {
		lines = p.changed
	}
	l, place, turn := p.next(lines, h.class, h.below)
	switch {
	case l != nil:
		p.begin(h, l, place, turn)
	case h.below != "":
		p.resume(h)
	default:
		return false
	}
	return true
}

// begin starts a job of a line on a worker.
func (p *run) begin(h *runWorker, l *runLine, place int, turn bool) {
	job := l.job(place)
	seconds := p.times.Ratio(job.kind, h.class.gpuType) * job.gpuSeconds
	p.starts = append(p.starts, start{
		at: p.now, class: h.class, Line: l.Line, tag: l.VirtualTime, account: l.account, end: p.now + seconds, turn: turn,
		place: place, fresh: place >= l.queued, alone: l.alone,
	})
	if place < l.queued {
		p.left--
		p.cleared = p.now
	}
	l.take(place)
	p.changing = append(p.changing, l)
	l.Advance(job.gpuSeconds)
	p.turns.Start(l.Line)
	p.running[l.account]++
	p.keep(h, l.account, seconds)
}

// keep makes a worker busy.
func (p *run) keep(h *runWorker, account models.AccountID, seconds float64) {
	h.account, h.yields, h.recorded, h.until = account, "", false, p.now+seconds
	p.push(moment{at: h.until, worker: h})
}

// next returns the line from which a worker of the class takes its next job, the job's place, and
// whether a promoted job has the turn. The line is nil if there is no job. If below is set, only
// lanes above it count.
func (p *run) next(lines []*runLine, c *class, below models.Tier) (best *runLine, at int, turn bool) {
	var account models.AccountID
	may := func(q models.Queue) bool {
		p.looks++
		return c.Serves(q, account) && !p.paused(q)
	}
	for _, l := range lines {
		if below != "" && !l.Lane.Above(below) || !p.eligible(l) || best != nil && p.turns.Compare(l.fairPlace(), best.fairPlace()) >= 0 {
			continue
		}
		account = l.account
		if place := l.seek(may); place >= 0 {
			best, at = l, place
		}
	}
	return best, at, best != nil && p.turns.Promoted(best.Lane)
}
