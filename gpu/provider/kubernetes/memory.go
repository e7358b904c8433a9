package kubernetes

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/models/capacity"
)

// keepEnded is how long a pod stays listed after it was given up or taken away, and how long a pod that ended by itself
// is left to the scaler, which deletes those that it knows.
const keepEnded = 10 * time.Minute

// memory is what the provider remembers of a pool.
type memory struct {
	mu sync.Mutex
	// version is that of the newest list, and pods are those that it had, by id.
	version string
	pods    map[string]*known
	// fates are the pods that were given up or taken away, by id.
	fates map[string]*fate
}

// known is a pod of the newest list.
type known struct {
	uid       string
	state     fleet.InstanceState
	reclaimed bool
	ended     time.Time // when a list had it as ended for the first time, or zero
	seen
	ordered  bool // the scaler has ordered its deletion
	reported bool // as stuck
}

// fate is how a pod ended that vanishes.
type fate struct {
	uid string
	// err is why it was given up. It is nil for a pod that the cluster took away.
	err error
	// gone means that it was deleted. Otherwise the deletion is only tried.
	gone bool
	at   time.Time
}

// ending is a pod that a list deletes.
type ending struct {
	pod   *pod
	at    int  // its place in the list
	boots bool // it is given up while it boots
}

// remember returns the memory of a pool.
func (p *Provider) remember(pool *capacity.Pool) *memory {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.memory[pool.ID] == nil {
		p.memory[pool.ID] = &memory{fates: map[string]*fate{}}
	}
	return p.memory[pool.ID]
}

// order notes that the scaler deletes a pod: nobody has to find out why it vanishes.
func (m *memory) order(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.pods[id]; k != nil {
		k.ordered = true
	}
}

// vanished returns the version of the newest list, and the uids, by id, of the pods that it had and that l does not have,
// if nobody knows why they vanished.
func (m *memory) vanished(l *list) (version string, unknown map[string]string) {
	listed := map[string]bool{}
	for _, one := range l.pods {
		listed[one.Metadata.UID] = true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	unknown = map[string]string{}
	for id, k := range m.pods {
		switch {
		case listed[k.uid] || k.ordered || m.fates[id] != nil:
		case k.reclaimed:
			m.fates[id] = &fate{uid: k.uid, gone: true, at: l.now}
		case k.state == fleet.InstanceBooting || k.state == fleet.InstanceRunning:
			unknown[id] = k.uid
		}
	}
	return m.version, unknown
}

// before returns what the lists before had of a pod.
func (m *memory) before(one *pod) seen {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.pods[one.Metadata.Name]; k != nil && k.uid == one.Metadata.UID {
		return k.seen
	}
	return seen{}
}

// taken notes pods that the cluster took away, as uids by id.
func (m *memory) taken(pods map[string]string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, uid := range pods {
		m.fates[id] = &fate{uid: uid, gone: true, at: now}
	}
}

// over decides whether a listed pod is deleted now, and returns nil if not. It completes what is listed of a pod that was
// given up before and still ends.
func (m *memory) over(one *pod, i *fleet.Instance, now time.Time) *ending {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, k := m.fates[i.ID], m.pods[i.ID]
	if f != nil && f.uid == one.Metadata.UID && f.gone {
		i.State, i.Err, i.Reclaimed = fleet.InstanceEnded, f.err, f.err == nil
		return nil
	}
	ended := k != nil && k.uid == one.Metadata.UID && !k.ended.IsZero()
	switch {
	case one.Metadata.DeletionTimestamp != nil:
		return nil
	case i.State != fleet.InstanceEnded:
		delete(m.fates, i.ID) // it lives after all
		return nil
	case i.Err != nil, i.Reclaimed && ended:
		// Before it is deleted: the answer can be lost.
		m.fates[i.ID] = &fate{uid: one.Metadata.UID, err: i.Err, at: now}
	case !ended || now.Sub(k.ended) < keepEnded:
		return nil
	}
	return &ending{pod: one, boots: one.Status.Phase == "Pending"}
}

// ended notes how the deletion of a pod went, and reports whether the pod is gone.
func (m *memory) ended(e *ending, err error) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f := m.fates[e.pod.Metadata.Name]; f != nil && err == nil {
		f.gone = true
	}
	return err == nil
}

// fated returns the pods that were given up or taken away within the last minutes and that l does not have.
func (m *memory) fated(l *list) []fleet.Instance {
	listed := map[string]bool{}
	for _, one := range l.pods {
		listed[one.Metadata.Name] = true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.fates, func(_ string, f *fate) bool { return l.now.Sub(f.at) > keepEnded })
	var all []fleet.Instance
	for _, id := range slices.Sorted(maps.Keys(m.fates)) {
		if !listed[id] {
			all = append(all, fleet.Instance{ID: id, State: fleet.InstanceEnded, Err: m.fates[id].err, Reclaimed: m.fates[id].err == nil})
		}
	}
	return all
}

// keep remembers a list.
func (m *memory) keep(l *list, instances []fleet.Instance) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.pods
	m.version, m.pods = l.version, map[string]*known{}
	for i, one := range l.pods {
		k := &known{uid: one.Metadata.UID, state: instances[i].State, reclaimed: instances[i].Reclaimed}
		if k.state == fleet.InstanceEnded {
			k.ended = l.now
		}
		if was := before[instances[i].ID]; was != nil && was.uid == k.uid {
			k.ordered, k.reported, k.seen = was.ordered, was.reported, was.seen
			if !was.ended.IsZero() {
				k.ended = was.ended
			}
		}
		if one.gated() {
			k.held = l.now
		}
		switch {
		case one.failing() == nil:
			k.failing = time.Time{}
		case k.failing.IsZero():
			k.failing = l.now
		}
		m.pods[instances[i].ID] = k
	}
}

// report reports whether a pod is stuck that has not been reported.
func (m *memory) report(one *pod) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.pods[one.Metadata.Name]
	if k == nil || k.reported {
		return false
	}
	k.reported = true
	return true
}
