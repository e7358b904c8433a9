// Package region has a second region: a standby installation that takes over from the primary one.
//
// Each region has all processes, and a PostgreSQL of which one is the primary and the others are streaming standbys. The
// processes of a standby region wait, since nothing can be written to their database. A promotion ends that, and is a row
// with an epoch. The processes of a region serve only if the newest promotion in their database names it, and no process of
// another region shows a claim of the same or a later epoch. So an old primary that comes back does not serve.
package region

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/reelay/reelay/models/regions"
	"github.com/uptrace/bun"
)

// Claim is what a process says of its region.
type Claim struct {
	Region string `json:"region"`
	// Epoch counts the promotions in its database; 0 if it knows none.
	Epoch int64 `json:"epoch"`
	// Primary is true if its database can be written to and names the region.
	Primary bool `json:"primary"`
	// Installation is the id that all copies of its database share; "" while it knows none.
	Installation string `json:"installation"`
	// Overtaken is true if it was the primary, and another region told it of a later promotion: its database is no standby yet.
	Overtaken bool `json:"overtaken"`
}

// Peer is an api of another region, as it answered when it was asked last.
type Peer struct {
	// Address is the URL of the api, as REELAY_REGION_PEERS has it.
	Address string
	// Claim is what it says, once it is proved that it has the same secrets; nil if it does not answer.
	Claim *Claim
	// Failure is why there is no claim.
	Failure string
	// AnsweredAt is when it answered this process last; nil if it never did.
	AnsweredAt *time.Time
	// RivalAt is when it last claimed, to this process, to be the primary beside this region; nil if it never did.
	RivalAt *time.Time
}

// Peers are the processes of other regions.
type Peers interface {
	// Ask asks all, and returns them in the order of their addresses' configuration.
	Ask(ctx context.Context) []Peer
}

// claims returns what those say that answer.
func claims(peers []Peer) (all []Claim) {
	for _, p := range peers {
		if p.Claim != nil {
			all = append(all, *p.Claim)
		}
	}
	return all
}

// ErrFenced means that another region took over: this process must end at once.
var ErrFenced = errors.New("another region is the primary")

// Guard lets a process serve while its region is the primary. A nil Guard always does.
type Guard struct {
	// Name is the region of this process.
	Name  string
	Peers Peers

	claim atomic.Pointer[Claim]
	why   atomic.Pointer[string]
	seen  atomic.Pointer[[]Peer]
	// told is what the log says of each peer, by its address; "" if all is well. What it says of their absence is under "".
	told struct {
		sync.Mutex
		of map[string]string
	}
	// followedAt is when the peers were asked last while the database was a standby.
	followedAt time.Time
	// contested is the epoch that another region claims, too: it stays so when that region is silent.
	contested int64
}

const (
	// enterEvery is how often a process looks whether it may serve now: a promotion waits for it.
	enterEvery = 500 * time.Millisecond
	// WatchEvery is how often a process that serves looks whether it still may.
	WatchEvery = 5 * time.Second
	// sayEvery is how often the log says why a process waits.
	sayEvery = 10 * time.Second
)

// Claim is what this process says of its region.
func (g *Guard) Claim() Claim {
	if claim := g.claim.Load(); claim != nil {
		return *claim
	}
	return Claim{Region: g.Name}
}

// Why is why the process does not serve, or "" if that is not known, or if it does.
func (g *Guard) Why() string {
	if g == nil {
		return ""
	}
	if why := g.why.Load(); why != nil {
		return *why
	}
	return ""
}

// Ask implements [Peers] with the newest answers that the guard has: it asks by itself, every [WatchEvery].
func (g *Guard) Ask(ctx context.Context) []Peer {
	if seen := g.seen.Load(); seen != nil {
		return *seen
	}
	return g.ask(ctx, regions.Promotion{})
}

// ask asks the peers, and keeps what they answer. Newest is the promotion in force as far as it is known.
func (g *Guard) ask(ctx context.Context, newest regions.Promotion) []Peer {
	peers := g.Peers.Ask(ctx)
	before := map[string]Peer{}
	if seen := g.seen.Load(); seen != nil {
		for _, p := range *seen {
			before[p.Address] = p
		}
	}
	now := time.Now()
	for i := range peers {
		p := &peers[i]
		p.AnsweredAt, p.RivalAt = before[p.Address].AnsweredAt, before[p.Address].RivalAt
		if p.Claim != nil {
			p.AnsweredAt = &now
			if newest.Region == g.Name && isRival(*p.Claim, g.Name, newest) {
				p.RivalAt = &now
			}
		}
	}
	g.seen.Store(&peers)
	g.tell(ctx, newest, peers)
	return peers
}

// tell writes to the log what is wrong with the peers, at first and when it changes.
func (g *Guard) tell(ctx context.Context, newest regions.Promotion, peers []Peer) {
	g.told.Lock()
	defer g.told.Unlock()
	if g.told.of == nil {
		g.told.of = map[string]string{}
		if len(peers) == 0 {
			slog.WarnContext(ctx,
				"REELAY_REGION_PEERS is not set: no other region is asked, and this one does not learn of it when another takes over",
				"region", g.Name)
		}
	}
	s := &Standing{Region: g.Name, Newest: newest, Peers: peers}
	for _, p := range peers {
		r := s.peer(p)
		before := g.told.of[p.Address]
		g.told.of[p.Address] = r.Problem
		switch {
		case r.Problem == before:
		case r.Problem == "":
			slog.InfoContext(ctx, "a region of REELAY_REGION_PEERS is as it should be again", "peer", p.Address)
		default:
			slog.WarnContext(ctx, "a region of REELAY_REGION_PEERS is not as it should be", "peer", p.Address, "problem", r.Problem, "fix",
				r.Fix)
		}
	}
}

// Follow notes what the region is while its database is a standby, so that nothing can be served: for those who ask, and for other
// regions. It asks the peers every [WatchEvery], so that a wrong address is known before it matters.
func (g *Guard) Follow(ctx context.Context, db *bun.DB) {
	if g == nil {
		return
	}
	newest, err := regions.Newest(ctx, db)
	if err != nil {
		return // the caller tries again
	}
	why := fmt.Sprintf("This region is a standby of %s.", newest.Region)
	switch newest.Region {
	case "":
		why = "PostgreSQL here is a standby, and no region is the primary yet."
	case g.Name:
		why = fmt.Sprintf("PostgreSQL here is a standby, and the primary is called %s as this region is: correct REELAY_REGION, or wait until PostgreSQL is promoted.",
			g.Name)
	}
	g.why.Store(&why)
	g.claim.Store(&Claim{Region: g.Name, Epoch: newest.Epoch, Installation: newest.Installation})
	if time.Since(g.followedAt) >= WatchEvery {
		g.followedAt = time.Now()
		g.ask(ctx, newest)
	}
}

// Enter waits until the region is the primary. It makes the first region that asks the primary.
func (g *Guard) Enter(ctx context.Context, db *bun.DB) error {
	if g == nil {
		return nil
	}
	var said time.Time
	for {
		why, err := g.look(ctx, db)
		if err != nil {
			slog.WarnContext(ctx, "it is not known which region is the primary", "error", err)
			why = "PostgreSQL does not say which region is the primary."
		}
		g.why.Store(&why)
		if why == "" {
			return nil
		}
		if time.Since(said) >= sayEvery {
			said = time.Now()
			slog.WarnContext(ctx, "this region waits", "region", g.Name, "why", why)
		}
		select {
		case <-time.After(enterEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Watch returns an error that is [ErrFenced] as soon as another region is the primary.
func (g *Guard) Watch(ctx context.Context, db *bun.DB) error {
	if g == nil {
		return nil
	}
	for {
		select {
		case <-time.After(WatchEvery):
		case <-ctx.Done():
			return nil
		}
		why, err := g.look(ctx, db)
		if err != nil { // a region that was overtaken often lacks a PostgreSQL that answers
			known := g.Claim()
			newest := regions.Promotion{Epoch: known.Epoch, Region: g.Name, Installation: known.Installation}
			why = g.judge(newest, claims(g.ask(ctx, newest)))
		}
		if why != "" {
			return fmt.Errorf("%w: %s", ErrFenced, why)
		}
	}
}

// look returns why the region is not the primary, or "".
func (g *Guard) look(ctx context.Context, db *bun.DB) (string, error) {
	newest, err := regions.Newest(ctx, db)
	if err != nil {
		return "", err
	}
	peers := claims(g.ask(ctx, newest))
	why := g.judge(newest, peers)
	if why == "" && newest.Epoch == 0 {
		if _, err := regions.Promote(ctx, db, 0, g.Name, regions.Takeover{}); err != nil {
			return "", err
		}
		if newest, err = regions.Newest(ctx, db); err != nil { // another process can have been first
			return "", err
		}
		why = g.judge(newest, peers)
	}
	overtaken := newest.Learned
	for _, p := range rivals(peers, g.Name, newest) {
		if p.Epoch > newest.Epoch {
			overtaken = true
			// A region that was overtaken stays so, also when the other is silent.
			if err := regions.Learn(ctx, db, p.Epoch, p.Region); err != nil {
				slog.WarnContext(ctx, "the promotion of another region was not noted", "error", err)
			}
		}
	}
	g.claim.Store(&Claim{Region: g.Name, Epoch: newest.Epoch, Primary: (newest.Epoch == 0 || newest.Region == g.Name) && !overtaken,
		Installation: newest.Installation, Overtaken: overtaken})
	return why, nil
}

// rivals returns the claims of other regions to be the primary. The region of another database, which is no copy of this
// one, competes with nobody.
func rivals(peers []Claim, region string, newest regions.Promotion) (found []Claim) {
	for _, p := range peers {
		if isRival(p, region, newest) {
			found = append(found, p)
		}
	}
	return found
}

func isRival(p Claim, region string, newest regions.Promotion) bool {
	return p.Primary && p.Region != region && p.Installation == newest.Installation
}

// judge returns why the region must not serve, given the newest promotion in its database, and what others claim.
func (g *Guard) judge(newest regions.Promotion, peers []Claim) string {
	for _, p := range rivals(peers, g.Name, newest) {
		switch {
		case p.Epoch > newest.Epoch || p.Epoch == newest.Epoch && newest.Epoch == 0:
			return fmt.Sprintf("Region %s is the primary: it was promoted (epoch %d) after this database (epoch %d). Make this database its standby: "+
				"docs/operators/regions.md.", p.Region, p.Epoch, newest.Epoch)
		case p.Epoch == newest.Epoch && newest.Region == g.Name:
			g.contested = p.Epoch
		}
	}
	switch {
	case newest.Learned:
		return fmt.Sprintf("Region %s is the primary: it was promoted (epoch %d) while this region was away. Make this database its standby: "+
			"docs/operators/regions.md.", newest.Region, newest.Epoch)
	case newest.Epoch > 0 && newest.Region != g.Name:
		return fmt.Sprintf("Region %s is the primary (epoch %d), not %s. Run `reelay region promote` to take over, or correct REELAY_REGION, if this is %s.",
			newest.Region, newest.Epoch, g.Name, newest.Region)
	case newest.Epoch > 0 && newest.Epoch == g.contested:
		return fmt.Sprintf("Region %s and another were both promoted (epoch %d). Neither serves. Run `reelay region promote` in the one that shall be "+
			"the primary: docs/operators/regions.md.", g.Name, newest.Epoch)
	}
	return ""
}
