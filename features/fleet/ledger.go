package fleet

import (
	"context"
	"fmt"
	"time"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
)

// The ledger has a row for each machine that a provider was asked for. The functions below record in it
// what the provider's lists say. Lists lag, lack machines and repeat old states, so a list alone never
// ends a worker that still sends heartbeats.

const (
	// listLag is how long lists may lack a machine whose creation was confirmed, before they had it once.
	listLag = 2 * time.Minute
	// silence is how long a living worker has no newer sign of life in the database at most: it sends
	// one every HeartbeatEvery, and one within 5 seconds of another is not written.
	silence = lease.HeartbeatEvery + 5*time.Second
)

// listing is what a provider answered for a pool.
type listing struct {
	pool  *capacity.Pool
	known map[string]Instance // by id
	// now is when it was asked for, and before when the list before was, or zero.
	now, before time.Time
	// grace is how long a machine is not listed because it is still being asked for.
	grace time.Duration
	// sure means that the list is the operating system's, which is not wrong.
	sure bool
	// works are the machines with a worker that has not ended, spoke the last signs of life of such
	// workers, and ledger all machines that are not gone.
	works  map[string]bool
	spoke  map[string]time.Time
	ledger map[string]*capacity.Machine
}

func (s *Scaler) listed(p poolState, instances []Instance, now time.Time) *listing {
	provider := s.Providers[p.pool.Provider]
	l := &listing{pool: p.pool, known: map[string]Instance{}, now: now, before: s.surveys.before(p.pool.ID), grace: graceOf(provider),
		sure: !isRemote(provider), works: map[string]bool{}, spoke: map[string]time.Time{}, ledger: map[string]*capacity.Machine{}}
	for _, i := range instances {
		l.known[i.ID] = i
	}
	for _, w := range p.workers {
		l.works[w.ProviderInstanceID] = true
		if at := w.LastHeartbeatAt; at.After(l.spoke[w.ProviderInstanceID]) {
			l.spoke[w.ProviderInstanceID] = at
		}
	}
	for _, m := range p.machines {
		l.ledger[m.InstanceID] = m
	}
	return l
}

// has reports whether the list has a machine that has not ended.
func (l *listing) has(id string) bool {
	i, listed := l.known[id]
	return listed && i.State != InstanceEnded
}

// note writes in the ledger what the list says of its machines.
func (s *Scaler) note(ctx context.Context, l *listing) error {
	var changed []*capacity.Machine
	for _, m := range l.ledger {
		if m.GoneAt.IsZero() && l.judge(m) {
			changed = append(changed, m)
		}
	}
	if err := capacity.UpdateMachines(ctx, s.DB, changed); err != nil {
		return fmt.Errorf("write the ledger of machines: %w", err)
	}
	return nil
}

// add writes in the ledger the machines of the list that it lacks and that have not ended.
func (s *Scaler) add(ctx context.Context, l *listing) error {
	var ids []string
	for id, i := range l.known {
		if i.State != InstanceEnded && l.ledger[id] == nil {
			ids = append(ids, id)
		}
	}
	if ids = s.surveys.news(l.pool.ID, ids); len(ids) == 0 {
		return nil
	}
	if err := capacity.MachinesFound(ctx, s.DB, l.pool, ids, l.now); err != nil {
		return fmt.Errorf("write unknown machines into the ledger: %w", err)
	}
	return nil
}

// judge notes what the list says of a machine, and reports whether that is new.
func (l *listing) judge(m *capacity.Machine) bool {
	was := *m
	switch i := l.known[m.InstanceID]; {
	case i.Err != nil && m.RegisteredAt.IsZero(): // it was never made
		l.gone(m, m.CreatedAt)
	case l.has(m.InstanceID):
		l.saw(m, i)
	case m.CreatedAt.IsZero():
		if l.now.Sub(m.AskedAt) >= l.grace {
			l.gone(m, m.AskedAt)
		}
	case l.unlisted(m):
	case m.MissingAt.IsZero():
		m.MissingAt = l.now
		if l.before.After(m.ListedAt) && m.DeletedAt.IsZero() {
			m.ListedAt = l.before
		}
		m.SpokeAt = l.spoke[m.InstanceID]
		if l.over(m) {
			l.gone(m, l.billedUntil(m))
		}
	case l.over(m):
		l.gone(m, l.billedUntil(m))
	}
	return *m != was
}

// over reports whether a machine that is missing is gone. A list that lacks it is not enough, unless its
// deletion was confirmed. One that stopped by itself still has disks, until it is deleted.
func (l *listing) over(m *capacity.Machine) bool {
	if l.works[m.InstanceID] {
		return false
	}
	if l.stopped(m.InstanceID) {
		return !m.DeletedAt.IsZero()
	}
	i, listed := l.known[m.InstanceID]
	ended := listed && i.State == InstanceEnded
	return l.sure || ended || !m.DeletedAt.IsZero() || l.now.Sub(m.MissingAt) >= silence
}

// stopped reports whether the provider has a machine that ended by itself.
func (l *listing) stopped(id string) bool {
	i, listed := l.known[id]
	return listed && !l.sure && i.State == InstanceEnded && !i.Reclaimed && i.Err == nil
}

// unlisted reports whether a list lacks a machine only because it lags.
func (l *listing) unlisted(m *capacity.Machine) bool {
	_, listed := l.known[m.InstanceID]
	return !listed && !l.sure && m.ListedAt.IsZero() && m.RegisteredAt.IsZero() && m.DeletedAt.IsZero() && l.now.Sub(m.CreatedAt) < listLag
}

// saw notes that a list has a machine. After its deletion it counts only if it is being stopped, or if
// the deletion should have ended it: other lists are older than the deletion.
func (l *listing) saw(m *capacity.Machine, i Instance) {
	m.MissingAt = time.Time{}
	if m.ListedAt.IsZero() {
		latest := l.now
		if !m.RegisteredAt.IsZero() {
			latest = m.RegisteredAt
		}
		m.CreatedAt, m.ListedAt = believable(i.CreatedAt, m.AskedAt, latest, m.CreatedAt), l.now
		if m.CreatedAt.IsZero() {
			m.CreatedAt = m.AskedAt
		}
	}
	if !m.DeletedAt.IsZero() && (i.State == InstanceEnding || l.now.Sub(m.DeletedAt) > clearGrace) {
		m.ListedAt = l.now
	}
}

func (l *listing) gone(m *capacity.Machine, billed time.Time) {
	m.GoneAt, m.BilledUntil = l.now, billed
	if billed.Before(m.CreatedAt) || billed.IsZero() {
		m.BilledUntil = m.CreatedAt
	}
	if m.BilledUntil.IsZero() {
		m.BilledUntil = m.AskedAt
	}
}

// billedUntil returns until when a missing machine was paid for: as the provider says, if that lies between the last list that
// had the machine and the first that did not.
func (l *listing) billedUntil(m *capacity.Machine) time.Time {
	return believable(l.known[m.InstanceID].EndedAt, m.ListedAt, m.MissingAt, endOf(m))
}

// endOf returns until when a missing machine was paid for, if the provider does not say it. If its deletion was confirmed and no
// later list showed it, that is the time of the deletion. Otherwise it is the middle between the last
// list that had the machine and the first that did not. If its workers fell silent shortly before that
// time, the lists lag, and the workers' last sign of life decides.
func endOf(m *capacity.Machine) time.Time {
	switch deleted := !m.DeletedAt.IsZero() && m.DeletedAt.Before(m.MissingAt); {
	case deleted && !m.ListedAt.After(m.DeletedAt):
		return m.DeletedAt
	case m.ListedAt.IsZero():
		return m.MissingAt
	}
	until := m.ListedAt.Add(m.MissingAt.Sub(m.ListedAt) / 2)
	silent := m.SpokeAt.Add(lease.HeartbeatEvery / 2)
	if m.DeletedAt.IsZero() && !m.SpokeAt.IsZero() && silent.Before(until) && until.Sub(silent) < listLag {
		return silent
	}
	return until
}

// believable returns a time that a provider states if it lies in a span, and otherwise another: the
// clocks of clouds can be wrong.
func believable(said, from, until, otherwise time.Time) time.Time {
	if said.IsZero() || said.Before(from) || said.After(until) {
		return otherwise
	}
	return said
}

// silent reports whether the lists and the heartbeats agree that the machine of a registered worker is
// gone: the lists have lacked it for longer than a living worker is silent, and the worker has been silent
// as long. If it has spoken since they lacked it, they were wrong, or its last sign of life was written
// late: then it must be silent twice as long.
func (l *listing) silent(w *models.Worker) bool {
	if l.sure {
		return true
	}
	m := l.ledger[w.ProviderInstanceID]
	if m == nil || m.MissingAt.IsZero() || l.now.Sub(m.MissingAt) < silence {
		return false
	}
	return !w.LastHeartbeatAt.After(m.MissingAt) || l.now.Sub(w.LastHeartbeatAt) >= 2*silence
}

// wrong returns what proves that the provider's lists are wrong: they lack machines whose workers have
// spoken since. It returns nil if nothing does.
func (l *listing) wrong(workers []*models.Worker) error {
	lacks, have, first := map[string]bool{}, map[string]bool{}, ""
	for _, w := range workers {
		m := l.ledger[w.ProviderInstanceID]
		switch {
		case w.RegisteredAt.IsZero() || m == nil || l.sure:
		case l.has(w.ProviderInstanceID):
			have[m.InstanceID] = true
		case !m.MissingAt.IsZero() && w.LastHeartbeatAt.After(m.MissingAt.Add(time.Second)):
			lacks[m.InstanceID] = true
			if first == "" || m.InstanceID < first {
				first = m.InstanceID
			}
		}
	}
	if len(lacks) == 0 {
		return nil
	}
	return fmt.Errorf("its list is wrong: it lacks %s of %d whose workers speak, such as %s", text.Count(len(lacks), "machine"),
		len(lacks)+len(have), text.Clip(first, 64))
}

// told notes that the deletion of machines is asked for, and deleted that it was confirmed.
func (s *Scaler) told(ctx context.Context, l *listing, instances []Instance) error {
	return s.mark(ctx, l, instances, func(m *capacity.Machine) {
		if m.ToldAt.IsZero() {
			m.ToldAt = l.now
		}
	})
}

func (s *Scaler) deleted(ctx context.Context, l *listing, instances []Instance, failed map[string]error, at time.Time) error {
	return s.mark(ctx, l, instances, func(m *capacity.Machine) {
		if m.DeletedAt.IsZero() && failed[m.InstanceID] == nil {
			m.DeletedAt = at
			if l.stopped(m.InstanceID) {
				l.gone(m, l.billedUntil(m))
			}
		}
	})
}

func (s *Scaler) mark(ctx context.Context, l *listing, instances []Instance, set func(*capacity.Machine)) error {
	var changed []*capacity.Machine
	for _, i := range instances {
		if m := l.ledger[i.ID]; m != nil && m.GoneAt.IsZero() {
			set(m)
			changed = append(changed, m)
		}
	}
	if err := capacity.UpdateMachines(ctx, s.DB, changed); err != nil {
		return fmt.Errorf("write deletions into the ledger of machines: %w", err)
	}
	return nil
}
