package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/models/postgres"
	"github.com/stretchr/testify/require"
)

// cloud is a provider elsewhere with a clock and a bill of its own. Each of its faults can be set.
type cloud struct {
	random   *rand.Rand
	now      time.Duration // since it began
	machines map[string]*rented
	past     []map[string]fleet.Instance // what a list had at each second

	// room is how many machines it has place for.
	room int
	// lost is how many of 100 answers to a create are lost: the machine is made, and the answer is an error.
	lost int
	// lag is how old its lists are. lacks is how many of 100 machines a list lacks, empty how many of 100
	// lists are empty.
	lag          time.Duration
	lacks, empty int
	// ending is how long a machine that was deleted still runs, and is paid for.
	ending time.Duration
	// others are machines of another pool that its lists have. It must not be told to delete them.
	others []fleet.Instance
	// off is how far its clock is off.
	off time.Duration

	// asked and made are of its newest answer to a create, as it said it.
	asked, made int
	deleted     []string

	// acts is what operators do now, if they do anything.
	acts     act
	operated bool
}

// rented is a machine of the cloud, paid for from created until gone.
type rented struct {
	created, boots, dies time.Duration // boots and dies are when it registers and dies by itself
	deleted, gone        time.Duration // 0 if it is not
	worker               jobs.Principal
	held                 *held // the job that it renders, or nil
}

func (*cloud) CreateLimit() time.Duration { return 0 }

func (c *cloud) alive() (n int) {
	for _, m := range c.machines {
		if m.gone == 0 {
			n++
		}
	}
	return n
}

func (c *cloud) Create(_ context.Context, _ *capacity.Pool, _ string, ids []string) []fleet.Created {
	answer := fleet.Undone(ids, nil)
	c.asked, c.made = len(ids), 0
	defer func() {
		for _, one := range answer {
			if one.Err == nil {
				c.made++
			}
		}
	}()
	for i, id := range ids {
		if c.machines[id] != nil {
			continue
		}
		if c.alive() >= c.room {
			answer[i].Err = fleet.Refuse(fleet.Stockout, "this zone has no more such machines")
			continue
		}
		m := &rented{created: c.now, boots: c.now + time.Duration(20+c.random.IntN(60))*time.Second, dies: time.Hour}
		switch c.random.IntN(8) {
		case 0:
			m.boots = time.Hour // it never registers
		case 1:
			m.dies = m.boots + time.Duration(c.random.IntN(240))*time.Second
		}
		c.machines[id] = m
		if c.random.IntN(100) < c.lost {
			answer[i].Err = errors.New("connection reset by peer")
		}
	}
	return answer
}

func (c *cloud) List(context.Context, *capacity.Pool) ([]fleet.Instance, error) {
	if c.random.IntN(100) < c.empty {
		return nil, nil
	}
	at := max(0, len(c.past)-1-int(c.lag/time.Second))
	all := slices.Clone(c.others)
	for _, id := range slices.Sorted(maps.Keys(c.past[at])) {
		i := c.past[at][id]
		if c.random.IntN(100) >= c.lacks {
			i.ID, i.CreatedAt = id, time.Now().Add(c.machines[id].created-c.now+c.off)
			all = append(all, i)
		}
	}
	return all, nil
}

func (c *cloud) Delete(_ context.Context, _ *capacity.Pool, all []fleet.Instance) map[string]error {
	for _, i := range all {
		c.deleted = append(c.deleted, i.ID)
		if m := c.machines[i.ID]; m != nil && m.deleted == 0 {
			m.deleted = c.now
		}
	}
	return nil
}

// pass lets a second pass.
func (c *cloud) pass() {
	c.now += time.Second
	listed := map[string]fleet.Instance{}
	for id, m := range c.machines {
		switch {
		case m.gone == 0 && c.now >= m.dies:
			m.gone = m.dies
		case m.gone == 0 && m.deleted > 0 && c.now >= m.deleted+c.ending:
			m.gone = m.deleted + c.ending
		case m.gone == 0 && m.deleted > 0:
			listed[id] = fleet.Instance{State: fleet.InstanceEnding}
		case m.gone == 0:
			listed[id] = fleet.Instance{State: fleet.InstanceRunning}
		}
	}
	c.past = append(c.past, listed)
}

// billed is what the cloud was paid for, in machine seconds.
func (c *cloud) billed() (seconds float64) {
	for _, m := range c.machines {
		until := c.now
		if m.gone > 0 {
			until = m.gone
		}
		seconds += (until - m.created).Seconds()
	}
	return seconds
}

// TestLedger runs the scaler for virtual minutes with clouds of each fault. No machine above the maximum is
// paid for, no list ends a worker that speaks, and the ledger has the cloud's bill.
func TestLedger(t *testing.T) {
	t.Parallel()

	for name, fault := range map[string]func(*cloud){
		"answers in parts":         func(c *cloud) { c.room = 5 },
		"lost answers":             func(c *cloud) { c.lost = 30 },
		"lists that lag":           func(c *cloud) { c.lag = 30 * time.Second },
		"lists that lack":          func(c *cloud) { c.lacks = 10 },
		"empty lists":              func(c *cloud) { c.empty = 20 },
		"no list has anything":     func(c *cloud) { c.empty = 100 },
		"machines that end slowly": func(c *cloud) { c.ending = 40 * time.Second },
		"a clock hours ahead":      func(c *cloud) { c.off = 3 * time.Hour },
		"machines of another pool": func(c *cloud) { c.others = []fleet.Instance{{ID: "other-1", State: fleet.InstanceRunning}} },
		"operators at work":        func(c *cloud) { c.operated = true },
		"everything at the same time": func(c *cloud) {
			c.room, c.lost, c.lacks, c.lag, c.ending = 7, 20, 5, 10*time.Second, 20*time.Second
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := jobstest.New(t)
			pool := jobstest.AddPool(t, s, 0, 8)
			s.Exec(t, "UPDATE pools SET price_per_hour_usd = 1 WHERE id = ?", pool.ID)
			c := &cloud{random: rand.New(rand.NewPCG(7, uint64(len(name)))), machines: map[string]*rented{}, room: 100,
				past: []map[string]fleet.Instance{{}}}
			fault(c)
			if len(c.others) > 0 { // a live worker of another pool has it
				s.Exec(t, "INSERT INTO machines (pool_id, provider, instance_id, workers, created_at) VALUES (?, 'fake', 'other-1', 1, now())",
					models.PoolID(addNamed(t, s, "others")))
			}
			scaler := &fleet.Scaler{DB: s.DB, Notifier: s.Notifier, Providers: map[string]fleet.Provider{"fake": c}}
			began, err := postgres.Now(t.Context(), s.DB)
			require.NoError(t, err)

			all := gather(t, s)
			const minutes = 8
			for second := range minutes * 60 {
				c.pass()
				// With what the round before took, a second has passed.
				at, err := postgres.Now(t.Context(), s.DB)
				require.NoError(t, err)
				rest := time.Duration(second+1)*time.Second - at.Sub(began)
				age(t, s, scaler, rest)
				began = began.Add(-rest)
				switch second { // the demand goes up and down
				case 0, 300:
					s.Exec(t, "UPDATE pools SET min_workers = 8 WHERE id = ?", pool.ID)
				case 180, 400:
					s.Exec(t, "UPDATE pools SET min_workers = 1 WHERE id = ?", pool.ID)
				}
				for _, id := range slices.Sorted(maps.Keys(c.machines)) {
					m := c.machines[id]
					if m.gone > 0 || m.deleted > 0 {
						continue
					}
					switch {
					case c.now == m.boots:
						m.worker = register(t, s, pool, id)
					case m.worker.WorkerID != "" && c.now > m.boots && second%7 == 0:
						s.Exec(t, "UPDATE workers SET last_heartbeat_at = clock_timestamp() WHERE id = ? AND ended_at IS NULL", m.worker.WorkerID)
						w, err := jobs.GetWorker(t.Context(), s.DB, m.worker.WorkerID)
						require.NoError(t, err)
						require.NotEqual(t, models.WorkerTerminated, w.Status, "%s: a worker that speaks was ended at %s: %s", id, c.now, w.DrainReason)
						if w.Status == models.WorkerDraining { // its agent leaves
							_, err := s.Registrar.Deregister(t.Context(), m.worker, m.worker.WorkerID)
							require.NoError(t, err)
							m.worker = jobs.Principal{}
						}
					}
				}
				c.work(t, s, &all, second)
				if c.operated {
					c.operate(t, s, pool, second)
				}
				_, _ = s.Reaper.Reap(t.Context())
				_ = scaler.Scale(t.Context())
				require.LessOrEqual(t, c.alive(), 8, "at %s", c.now)
				if second%10 == 9 {
					c.check(t, s, pool)
					c.checkJobs(t, s, all)
				}
			}
			rows, err := models.CountHistoryPools(t.Context(), s.DB, began, began.Add(minutes*time.Minute), nil, "")
			require.NoError(t, err)
			var paid models.Paid
			for _, row := range rows {
				if row.Pool == pool.Name {
					paid.Add(row.Paid)
				}
			}
			if c.empty == 100 { // no answer tells when a machine ended
				require.Contains(t, poolStatus(t, s, pool).ProviderProblem, "its list is wrong: it lacks ")
				return
			}
			within := 0.02
			switch {
			case c.lag > 0 && c.ending > 0: // lists show machines as ending that have ended, and nothing else tells
				within = 0.1
			case c.lacks > 0:
				within = 0.05
			}
			require.InEpsilon(t, c.billed(), paid.Total().Seconds, within, "%+v", paid)
			for _, other := range c.others {
				require.NotContains(t, c.deleted, other.ID)
			}
			require.NotZero(t, paid.Idle.Seconds)
			require.NotZero(t, paid.Boot.Seconds)
		})
	}
}

// check compares what the scaler says of the pool with the truth of the cloud.
func (c *cloud) check(t *testing.T, s *jobstest.Stack, pool *capacity.Pool) {
	t.Helper()
	e, err := s.Pools.Explain(t.Context(), s.Admin, pool.ID)
	require.NoError(t, err)
	short := e.Workers < e.Pool.MinWorkers && e.Boot == 0
	ends := 0 // machines without a worker that could take a job
	for _, m := range c.machines {
		if m.gone == 0 || c.now-m.gone < c.lag+time.Minute {
			ends++
		}
	}
	causes := map[string]bool{
		"it is outside the pool's active hours":              c.acts == actHours,
		"the pool is paused":                                 c.acts == actPausePool,
		"is above its limit of $":                            c.acts == actDear,
		"the provider refused machines (":                    c.asked > 0 && c.made == 0,
		"the provider had only some of the machines (":       c.asked > c.made && c.made > 0,
		"did not have all machines before, and is now asked": c.asked > 0,
		"in a row did not start (":                           slices.ContainsFunc(slices.Collect(maps.Values(c.machines)), func(m *rented) bool { return m.boots == time.Hour }),
		"whose machines have not ended yet":                  ends > e.Workers,
		"nothing is changed, because its provider fails: ":   c.lacks > 0 || c.empty > 0 || c.lag > 0,
	}
	named := 0
	for sentence, true := range causes {
		if strings.Contains(e.Reason, sentence) {
			named++
			require.True(t, true, "at %s it says: %s (the newest answer: %d of %d)", c.now, e.Reason, c.made, c.asked)
		}
	}
	if short {
		require.NotZero(t, named, "at %s %d of %d workers, and no cause: %s", c.now, e.Workers, e.Pool.MinWorkers, e.Reason)
	}
}

func addNamed(t *testing.T, s *jobstest.Stack, name string) string {
	t.Helper()
	pool := &capacity.Pool{ID: models.NewPoolID(), PoolSpec: capacity.PoolSpec{Name: name, Provider: "fake", Region: "local", GPUType: "any",
		CapacityClass: models.CapacitySpot, Models: []string{"testcard"}, MaxWorkers: 1}}
	require.NoError(t, capacity.UpsertPool(t.Context(), s.DB, pool))
	s.Exec(t, "UPDATE pools SET provider = 'static', price_per_hour_usd = 1 WHERE id = ?", pool.ID)
	return string(pool.ID)
}

func register(t *testing.T, s *jobstest.Stack, pool *capacity.Pool, id string) jobs.Principal {
	t.Helper()
	_, secret, err := s.Registrar.Register(t.Context(), s.Enrolment, fleet.Registration{
		Provider: pool.Provider, ProviderInstanceID: id, GPUCount: 1, PoolID: pool.ID, Region: pool.Region, GPUType: pool.GPUType,
		CapacityClass: models.CapacitySpot, Models: []string{"testcard"},
	})
	require.NoError(t, err)
	p, err := s.Keys.Authenticate(t.Context(), secret)
	require.NoError(t, err)
	return p
}

// age makes all that happened older, as if so much time had passed.
func age(t *testing.T, s *jobstest.Stack, scaler *fleet.Scaler, by time.Duration) {
	t.Helper()
	for table, columns := range map[string][]string{
		"workers":  {"created_at", "registered_at", "last_heartbeat_at", "idle_since", "lost_at", "ended_at"},
		"machines": {"asked_at", "created_at", "registered_at", "told_at", "deleted_at", "listed_at", "missing_at", "spoke_at", "gone_at", "billed_until"},
		"pools":    {"backoff_until", "refused_at", "boot_failed_at", "boot_paused_at", "boot_retry_at"},
	} {
		set := ""
		for _, column := range columns {
			set += fmt.Sprintf(", %s = %[1]s - interval '%f s'", column, by.Seconds())
		}
		s.Exec(t, "UPDATE "+table+" SET "+set[2:])
	}
	fleet.Age(scaler, by)
}
