package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// A fault is one kind of failure. do injects it, waits until it is over, and returns its
// target, or "" if there was no target.
type fault struct {
	name string
	// cards is how often it occurs in one deck: see run.
	cards int
	// brief faults and their effects last seconds. A short run has only brief faults, since it
	// cannot wait until leases expire.
	brief bool
	do    func(f *faults, ctx context.Context, random *rand.Rand) string
}

var allFaults = []fault{
	{"kill an agent", 14, false, (*faults).killAgent},
	{"kill a runtime", 9, true, (*faults).killRuntime},
	{"preempt an agent", 10, true, (*faults).preempt},
	{"crash an agent, back at once", 3, true, (*faults).crashAgent},
	{"freeze an agent beyond its lease", 4, false, (*faults).freeze},
	{"70 % of the fleet goes", 1, false, (*faults).massLoss},
	{"damage a checkpoint", 4, false, (*faults).damage},
	{"kill an api", 5, true, (*faults).killAPI},
	{"stop an api", 2, true, (*faults).stopAPI},
	{"all apis away", 1, false, (*faults).allAPIs},
	{"kill a control", 5, true, (*faults).killControl},
	{"stop a control", 2, true, (*faults).stopControl},
	{"kill PostgreSQL", 3, true, (*faults).killPostgres},
	{"PostgreSQL away", 1, false, (*faults).postgresAway},
	{"kill Redis", 3, true, (*faults).killRedis},
	{"FLUSHALL", 4, true, (*faults).flush},
	{"Redis out of memory", 2, true, (*faults).fillRedis},
	{"network", 30, true, (*faults).network},
	{"agents cut off beyond a lease", 1, false, (*faults).cutOff},
	{"object store", 10, true, (*faults).storeFault},
}

// faults injects faults.
type faults struct {
	stack    *stack
	fleet    *fleet
	met      *counters
	injected *counters
	redis    *redis.Client
	kinds    []fault
	wait     sync.WaitGroup
	// storeTurn selects the faults of the store in turn, so that no run misses one.
	storeTurn atomic.Int64

	mu  sync.Mutex
	log []injection
}

// injection is one entry of the fault log.
type injection struct {
	At     time.Time
	Fault  string
	Target string
	Lasted float64 // seconds
}

func newFaults(s *stack, f *fleet, met *counters, kinds []fault) *faults {
	return &faults{stack: s, fleet: f, met: met, kinds: kinds, injected: newCounters(), redis: redis.NewClient(&redis.Options{
		Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.redisPort)), Password: s.password, MaxRetries: -1,
		DialTimeout: time.Second, ReadTimeout: 2 * time.Second, WriteTimeout: 2 * time.Second,
	})}
}

// atOnce bounds how many faults last at the same time.
const atOnce = 6

// run injects a fault about every gap until ctx ends, and then waits until all faults are
// over. The order comes from a deck of cards that the seed shuffles. Each round contains
// every kind, so that no run misses one. If once is set, it ends when each kind has occurred
// once, however slow the machine is.
func (f *faults) run(ctx context.Context, random *rand.Rand, gap time.Duration, once bool) {
	defer f.wait.Wait()
	bound := make(chan struct{}, atOnce)
	deck := shuffled(f.kinds, random)
	if once {
		deck = deck[:len(f.kinds)]
	}
	for ; ctx.Err() == nil; deck = deck[1:] {
		if len(deck) == 0 {
			if once {
				return
			}
			deck = shuffled(f.kinds, random)
		}
		card, choice := deck[0], rand.New(rand.NewPCG(random.Uint64(), random.Uint64()))
		sleep(ctx, gap/2+time.Duration(random.Float64()*float64(gap)))
		select {
		case bound <- struct{}{}:
		case <-ctx.Done():
			return
		}
		f.wait.Go(func() {
			defer func() { <-bound }()
			f.inject(ctx, card, choice)
		})
	}
}

// shuffled returns a round of cards: first one of each kind in random order, then the rest.
func shuffled(kinds []fault, random *rand.Rand) []fault {
	var first, rest []fault
	for _, fault := range kinds {
		first = append(first, fault)
		for range fault.cards - 1 {
			rest = append(rest, fault)
		}
	}
	random.Shuffle(len(first), func(i, j int) { first[i], first[j] = first[j], first[i] })
	random.Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
	return append(first, rest...)
}

func (f *faults) inject(ctx context.Context, card fault, random *rand.Rand) {
	at := time.Now()
	target := card.do(f, ctx, random)
	if target == "" {
		return
	}
	f.injected.add(card.name, 1)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, injection{At: at, Fault: card.name, Target: target, Lasted: time.Since(at).Seconds()})
}

// busy returns the instances that hold a job of at least this many steps.
func (f *faults) busy(ctx context.Context, steps int) map[string]bool {
	var found []string
	err := f.stack.db.NewRaw(`
		SELECT w.provider_instance_id FROM job_attempts a JOIN workers w ON w.id = a.worker_id JOIN jobs j ON j.id = a.job_id
		WHERE a.ended_at IS NULL AND (j.params ->> 'steps')::int >= ?`, steps).Scan(ctx, &found)
	if err != nil {
		return nil
	}
	instances := map[string]bool{}
	for _, instance := range found {
		instances[instance] = true
	}
	return instances
}

// victim returns a machine that holds a job, preferably a long one, if there is one.
func (f *faults) victim(ctx context.Context, random *rand.Rand) *machine {
	steps := 1
	if random.Float64() < 0.7 {
		steps = 40
	}
	for _, instances := range []map[string]bool{f.busy(ctx, steps), f.busy(ctx, 1)} {
		if m := f.fleet.claim(random, instances); m != nil {
			return m
		}
	}
	return f.fleet.claim(random, nil)
}

func (f *faults) killAgent(ctx context.Context, random *rand.Rand) string {
	m := f.victim(ctx, random)
	if m == nil {
		return ""
	}
	m.kill()
	f.met.add(metKillAgent, 1)
	return m.instance
}

// crashAgent kills an agent but not its machine: the agent returns under the same name.
func (f *faults) crashAgent(ctx context.Context, random *rand.Rand) string {
	m := f.victim(ctx, random)
	if m == nil {
		return ""
	}
	m.mu.Lock()
	m.sameAs = m.instance
	m.mu.Unlock()
	m.kill()
	f.met.add(metKillAgent, 1)
	return m.instance
}

func (f *faults) killRuntime(ctx context.Context, random *rand.Rand) string {
	m := f.victim(ctx, random)
	if m == nil {
		return ""
	}
	defer m.spare()
	if !m.killRuntime() {
		return ""
	}
	f.met.add(metKillRuntime, 1)
	return m.instance
}

func (f *faults) preempt(ctx context.Context, random *rand.Rand) string {
	m := f.victim(ctx, random)
	if m == nil {
		return ""
	}
	m.preempt()
	return m.instance
}

func (f *faults) freeze(ctx context.Context, random *rand.Rand) string {
	m := f.victim(ctx, random)
	if m == nil {
		return ""
	}
	defer m.spare()
	if random.Float64() < 0.5 { // otherwise the whole machine, like a live migration
		for _, pid := range childrenOf(m.child.Pid()) {
			_ = syscall.Kill(pid, syscall.SIGSTOP)
			defer syscall.Kill(pid, syscall.SIGCONT)
		}
	}
	m.freeze(ctx, 37*time.Second+time.Duration(random.IntN(15_000))*time.Millisecond)
	if ctx.Err() == nil {
		f.met.add(metFrozen, 1)
	}
	return m.instance
}

// massLoss ends most of the fleet within seconds, half of it without notice.
func (f *faults) massLoss(ctx context.Context, random *rand.Rand) string {
	size := f.fleet.size() * 7 / 10
	var wait sync.WaitGroup
	lost := 0
	for range size {
		m := f.fleet.claim(random, nil)
		if m == nil {
			break
		}
		lost++
		delay, noticed := time.Duration(random.IntN(3000))*time.Millisecond, random.Float64() < 0.5
		wait.Go(func() {
			sleep(ctx, delay)
			if noticed {
				m.preempt()
				return
			}
			m.kill()
			f.met.add(metKillAgent, 1)
		})
	}
	wait.Wait()
	if lost == 0 {
		return ""
	}
	f.met.add(metMass, 1)
	return fmt.Sprintf("%d agents", lost)
}

// damage kills an agent and then flips a bit of the checkpoint from which its job would
// resume, and sometimes also of the checkpoint before.
func (f *faults) damage(ctx context.Context, random *rand.Rand) string {
	var rows []struct{ Instance, Job string }
	err := f.stack.db.NewRaw(`
		SELECT w.provider_instance_id AS instance, j.id AS job FROM job_attempts a
		JOIN workers w ON w.id = a.worker_id JOIN jobs j ON j.id = a.job_id
		WHERE a.ended_at IS NULL AND j.latest_checkpoint_id IS NOT NULL AND j.cancel_requested_at IS NULL`).Scan(ctx, &rows)
	if err != nil || len(rows) == 0 {
		return ""
	}
	jobs := map[string]string{}
	instances := map[string]bool{}
	for _, row := range rows {
		jobs[row.Instance], instances[row.Instance] = row.Job, true
	}
	m := f.fleet.claim(random, instances)
	if m == nil {
		return ""
	}
	m.kill()
	f.met.add(metKillAgent, 1)
	job := jobs[m.instance]
	var keys []string
	err = f.stack.db.NewRaw(`
		SELECT object_key FROM artifacts WHERE job_id = ? AND type = 'CHECKPOINT' AND rejected_at IS NULL ORDER BY id DESC LIMIT ?`,
		job, 1+random.IntN(2)).Scan(context.WithoutCancel(ctx), &keys)
	if err != nil {
		return ""
	}
	for _, key := range keys {
		if err := f.stack.store.flip(key); err != nil {
			return ""
		}
	}
	return fmt.Sprintf("%d of job %s", len(keys), job)
}

func (f *faults) killAPI(_ context.Context, random *rand.Rand) string {
	p := f.stack.apis[random.IntN(apis)]
	p.signal(syscall.SIGKILL)
	f.met.add(metKillAPI, 1)
	return p.name
}

func (f *faults) stopAPI(_ context.Context, random *rand.Rand) string {
	p := f.stack.apis[random.IntN(apis)]
	p.signal(syscall.SIGTERM)
	return p.name
}

// allAPIs stops all api processes for longer than a gap.
func (f *faults) allAPIs(ctx context.Context, random *rand.Rand) string {
	for _, p := range f.stack.apis {
		p.keepDown()
		defer p.release()
		p.signal(syscall.SIGKILL)
		f.met.add(metKillAPI, 1)
	}
	sleep(ctx, 6*time.Second+time.Duration(random.IntN(4000))*time.Millisecond)
	return "all"
}

// killControl kills one control process, or all while one of them has claimed messages of the
// outbox that it has not delivered yet.
func (f *faults) killControl(ctx context.Context, random *rand.Rand) string {
	if random.IntN(2) == 0 && f.awaitClaim(ctx) {
		for _, p := range f.stack.controls {
			p.signal(syscall.SIGKILL)
			f.met.add(metKillControl, 1)
		}
		return "all, amid a delivery"
	}
	p := f.stack.controls[random.IntN(controls)]
	p.signal(syscall.SIGKILL)
	f.met.add(metKillControl, 1)
	return p.name
}

// awaitClaim waits up to 5 s until a message of the outbox is claimed. A claim lasts a few
// milliseconds, so it does not pause between its looks.
func (f *faults) awaitClaim(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		var claimed bool
		err := f.stack.db.NewRaw("SELECT EXISTS (SELECT FROM outbox WHERE claimed_until > clock_timestamp())").Scan(ctx, &claimed)
		if err != nil || claimed {
			return err == nil
		}
	}
	return false
}

func (f *faults) stopControl(_ context.Context, random *rand.Rand) string {
	p := f.stack.controls[random.IntN(controls)]
	p.signal(syscall.SIGTERM)
	return p.name
}

func (f *faults) killPostgres(context.Context, *rand.Rand) string {
	f.stack.postgres.signal(syscall.SIGKILL)
	f.met.add(metKillPG, 1)
	return "postgres"
}

// postgresAway stops PostgreSQL for longer than a gap.
func (f *faults) postgresAway(ctx context.Context, random *rand.Rand) string {
	f.stack.postgres.keepDown()
	defer f.stack.postgres.release()
	f.stack.postgres.signal(syscall.SIGKILL)
	f.met.add(metKillPG, 1)
	sleep(ctx, 6*time.Second+time.Duration(random.IntN(6000))*time.Millisecond)
	return "postgres"
}

func (f *faults) killRedis(context.Context, *rand.Rand) string {
	f.stack.redis.signal(syscall.SIGKILL)
	f.met.add(metKillRedis, 1)
	return "redis"
}

func (f *faults) flush(ctx context.Context, _ *rand.Rand) string {
	if f.redis.FlushAll(ctx).Err() != nil {
		return ""
	}
	f.met.add(metFlush, 1)
	return "redis"
}

// fillRedis makes Redis refuse every write for a while.
func (f *faults) fillRedis(ctx context.Context, random *rand.Rand) string {
	if f.redis.ConfigSet(ctx, "maxmemory", "100kb").Err() != nil {
		return ""
	}
	sleep(ctx, 2*time.Second+time.Duration(random.IntN(4000))*time.Millisecond)
	// A Redis that was killed meanwhile has lost the setting anyway.
	_ = f.redis.ConfigSet(context.WithoutCancel(ctx), "maxmemory", "0").Err()
	return "redis"
}

// network disturbs one connection between two processes for some seconds.
func (f *faults) network(ctx context.Context, random *rand.Rand) string {
	w := f.stack.network.pick(random, pairs[random.IntN(len(pairs))])
	t := toxics[random.IntN(len(toxics))]
	if !w.suffer(ctx, t, time.Second+time.Duration(random.IntN(5000))*time.Millisecond) {
		return ""
	}
	f.met.add(metToxic, 1)
	f.injected.add("· "+string(w.pair)+": "+t.name, 1)
	return string(w.pair) + ": " + t.name
}

// cutOff disconnects a group of agents for longer than a lease. They continue to render, lose
// their leases, and come back.
func (f *faults) cutOff(ctx context.Context, random *rand.Rand) string {
	w := f.stack.network.pick(random, agentsAPI)
	if !w.suffer(ctx, toxics[0], 38*time.Second+time.Duration(random.IntN(8000))*time.Millisecond) {
		return ""
	}
	f.met.add(metToxic, 1)
	return w.name
}

func (f *faults) storeFault(ctx context.Context, random *rand.Rand) string {
	fault := storeFaults[int(f.storeTurn.Add(1))%len(storeFaults)]
	if !f.stack.store.mode.CompareAndSwap(nil, fault) {
		return ""
	}
	sleep(ctx, 2*time.Second+time.Duration(random.IntN(4000))*time.Millisecond)
	f.stack.store.mode.Store(nil)
	f.injected.add("· object store: "+fault.name, 1)
	return fault.name
}

// total returns the number of faults, without their subtypes.
func (f *faults) total() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.log)
}
