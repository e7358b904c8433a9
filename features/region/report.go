package region

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/reelay/reelay/models/regions"
)

// Report is what operators see of the regions: in the console, over the APIs, in metrics and alerts, and by `reelay region`.
type Report struct {
	// Region is this one.
	Region string `json:"region"`
	// Serves is true if it is the primary.
	Serves bool `json:"serves"`
	// Database is primary or standby: whether PostgreSQL here can be written to.
	Database string `json:"database"`
	// Receiving is true while the primary sends to this standby.
	Receiving bool `json:"receiving"`
	// NewestTransaction is when the newest transaction of a standby was committed, and AgeSeconds how long ago that is.
	NewestTransaction *time.Time `json:"newestTransaction,omitempty"`
	AgeSeconds        *float64   `json:"ageSeconds,omitempty"`
	// PrimaryHeardAt is when a standby last heard the primary; nil if that is not known.
	PrimaryHeardAt *time.Time `json:"primaryHeardAt,omitempty"`
	UnappliedBytes int64      `json:"unappliedBytes"`
	// Standbys are those that follow this server.
	Standbys []regions.Standby `json:"standbys"`
	// CommitsWaitFor is synchronous_standby_names; "" if commits wait for no standby.
	CommitsWaitFor string `json:"commitsWaitFor"`
	// Primary is the region that was promoted last, and Epoch how many promotions there were; "" and 0 if there was none.
	Primary string     `json:"primary"`
	Epoch   int64      `json:"epoch"`
	Since   *time.Time `json:"since,omitempty"`
	// Promotions are the newest 20, the newest first.
	Promotions []ReportedPromotion `json:"promotions"`
	Peers      []ReportedPeer      `json:"peers"`
	// Warnings are what is wrong with this region itself.
	Warnings []Warning `json:"warnings"`
	// Hindrances are why it cannot be promoted now; there are none if it can.
	Hindrances []string `json:"hindrances,omitempty"`
}

// Warning says in words what is wrong with this region, and what to do.
type Warning struct {
	Problem string `json:"problem"`
	Fix     string `json:"fix"`
}

// ReportedPromotion is a promotion, with the region that was the primary before.
type ReportedPromotion struct {
	Epoch  int64     `json:"epoch"`
	Region string    `json:"region"`
	At     time.Time `json:"at"`
	// From is the region that was the primary before; "" for the first, and if it is not known.
	From string `json:"from"`
	// By is who made it, such as root@db2; "" for the first start of a region, and for a promotion that was learned of.
	By string `json:"by"`
	// NewestAt is when the newest transaction was committed that came from the region before, and HeardAt when its PostgreSQL was last
	// heard; nil if that is not known, or if nothing was taken over.
	NewestAt *time.Time `json:"newestAt,omitempty"`
	HeardAt  *time.Time `json:"heardAt,omitempty"`
	// Learned is true if another region told of it, while this one was away.
	Learned bool `json:"learned"`
}

// Trouble is what is wrong with a peer.
type Trouble string

// What can be wrong with a peer.
const (
	TroubleNone Trouble = ""
	// TroubleSilent is a peer without an answer that counts.
	TroubleSilent Trouble = "SILENT"
	// TroubleServes is one that claims to be the primary beside this region.
	TroubleServes Trouble = "SERVES_TOO"
	// TroubleOvertaken is one that was the primary, and has not become a standby since.
	TroubleOvertaken Trouble = "OVERTAKEN"
	// TroubleForeign is one of this region, or of another installation.
	TroubleForeign Trouble = "FOREIGN"
)

// Troubles are all but none.
var Troubles = []Trouble{TroubleSilent, TroubleServes, TroubleOvertaken, TroubleForeign}

// ReportedPeer is an api of another region.
type ReportedPeer struct {
	Address string `json:"address"`
	// Answers is true if it answered when it was asked last, and proved it. Otherwise Region is "".
	Answers bool   `json:"answers"`
	Region  string `json:"region"`
	// Serves is true if it claims to be the primary.
	Serves bool  `json:"serves"`
	Epoch  int64 `json:"epoch"`
	// AnsweredAt is when it answered the process that says this last; nil if it never did.
	AnsweredAt *time.Time `json:"answeredAt,omitempty"`
	Trouble    Trouble    `json:"trouble"`
	// Problem says in words what is wrong, and Fix what to do; both are "" if nothing is.
	Problem string `json:"problem"`
	Fix     string `json:"fix"`
	// RivalAt is when it last claimed to be the primary beside this region.
	RivalAt *time.Time `json:"-"`
}

// State is what the peer is, in a word, as a badge shows it.
func (p ReportedPeer) State() string {
	switch {
	case p.Trouble != TroubleNone:
		return string(p.Trouble)
	case p.Serves:
		return "SERVES"
	}
	return "WAITS"
}

// Report returns what operators see of it.
func (s *Standing) Report() *Report {
	r := &Report{Region: s.Region, Serves: s.serves(), Database: "primary", Receiving: s.Server.Receiving,
		UnappliedBytes: s.Server.Unapplied, Standbys: append([]regions.Standby{}, s.Server.Standbys...),
		CommitsWaitFor: s.Server.Synchronous,
		Primary:        s.Newest.Region, Epoch: s.Newest.Epoch, Promotions: []ReportedPromotion{}, Peers: []ReportedPeer{}, Warnings: s.Warnings()}
	if s.Server.Standby {
		r.Database = "standby"
		if age, known := s.Age(); known && s.TakesOver() {
			r.NewestTransaction, r.AgeSeconds = s.Server.LastCommit, new(age.Seconds())
		}
		r.PrimaryHeardAt = s.Server.HeardAt
	}
	if s.Newest.Epoch > 0 {
		r.Since = &s.Newest.At
	}
	for i, p := range s.Promotions {
		one := ReportedPromotion{Epoch: p.Epoch, Region: p.Region, At: p.At, By: p.By, NewestAt: p.NewestAt, HeardAt: p.HeardAt,
			Learned: p.Learned}
		if i+1 < len(s.Promotions) {
			one.From = s.Promotions[i+1].Region
		}
		r.Promotions = append(r.Promotions, one)
	}
	for _, p := range s.Peers {
		r.Peers = append(r.Peers, s.peer(p))
	}
	r.Hindrances = s.Hindrances()
	return r
}

// serves is true if the region is the primary, as far as is known.
func (s *Standing) serves() bool {
	return !s.Server.Standby && s.Newest.Epoch > 0 && !s.TakesOver() &&
		!slices.ContainsFunc(rivals(claims(s.Peers), s.Region, s.Newest), func(c Claim) bool { return c.Epoch > s.Newest.Epoch })
}

// Warnings returns what is wrong with this region itself. It is never nil.
func (s *Standing) Warnings() []Warning {
	all := []Warning{}
	if stuck := s.Server.Stuck(); stuck != "" {
		all = append(all, Warning{stuck, regions.UnstickFix})
	}
	if len(s.Peers) == 0 {
		all = append(all,
			Warning{"No peers are set (REELAY_REGION_PEERS): no other region is asked. This region does not learn of it when another takes over.",
				"Set REELAY_REGION_PEERS to the apis of the other regions, for api and control: docs/operators/regions.md, Set it up."})
	}
	switch {
	case !s.Server.Standby:
		if !s.Server.MayPromote && s.Server.Role != "" {
			all = append(all,
				Warning{fmt.Sprintf("The role %s may not promote a standby: `reelay region promote` in another region will fail.", s.Server.Role),
					"Run " + s.PromoteRight() + ", unless your cloud promotes the standby."})
		}
		return all
	case s.Newest.Region == s.Region:
		all = append(all, Warning{fmt.Sprintf("PostgreSQL here is a standby, and the primary is called %s as this region is.", s.Region),
			"Give this region a name of its own (REELAY_REGION), or wait until PostgreSQL is promoted, if it is another one of that region."})
	}
	if !s.Server.Receiving {
		all = append(all, Warning{fmt.Sprintf("PostgreSQL here receives nothing from %s.", cmp.Or(s.Newest.Region, "a primary")),
			"If that region runs, look into the log of PostgreSQL here. If it is lost, promote this one."})
	}
	if s.Server.Synchronous != "" {
		all = append(all,
			Warning{fmt.Sprintf("synchronous_standby_names is %s here: once promoted, nothing can be written until such a standby follows.",
				s.Server.Synchronous), "Run on this server `" + regions.UnstickSQL + "` It is for the primary only."})
	}
	return all
}

// peer judges a peer.
func (s *Standing) peer(p Peer) ReportedPeer {
	r := ReportedPeer{Address: p.Address, AnsweredAt: p.AnsweredAt, RivalAt: p.RivalAt}
	if p.Claim == nil {
		r.Trouble, r.Problem = TroubleSilent, sentence(p.Failure)
		r.Fix = "Start the api of that region, open the network between the two, or correct REELAY_REGION_PEERS (scheme, name, port). Both regions need the same secrets file."
		return r
	}
	c := *p.Claim
	r.Answers, r.Region, r.Serves, r.Epoch = true, c.Region, c.Primary, c.Epoch
	switch {
	case c.Region == s.Region:
		r.Trouble, r.Problem = TroubleForeign, fmt.Sprintf("It is this region itself, %s.", c.Region)
		r.Fix = "Give REELAY_REGION_PEERS the addresses of the other regions' apis."
	case c.Installation != "" && s.Newest.Installation != "" && c.Installation != s.Newest.Installation:
		r.Trouble, r.Problem = TroubleForeign, fmt.Sprintf("The database of %s is no copy of this one.", c.Region)
		r.Fix = "Make its PostgreSQL a standby of this one: docs/operators/regions.md, Set it up."
	case c.Primary && !s.TakesOver() && c.Epoch > s.Newest.Epoch:
		r.Trouble, r.Problem = TroubleServes, fmt.Sprintf("Region %s took over from this one (epoch %d; here it is %d).", c.Region, c.Epoch,
			s.Newest.Epoch)
		r.Fix = "This region stops. Keep it so, and make its database a standby: docs/operators/regions.md, Two primaries."
	case c.Primary && !s.TakesOver():
		r.Trouble, r.Problem = TroubleServes, fmt.Sprintf("Region %s claims to be the primary, too (epoch %d; here it is %d).", c.Region,
			c.Epoch, s.Newest.Epoch)
		r.Fix = "Stop the api and control processes of the region that was promoted first: docs/operators/regions.md, Two primaries."
	case c.Overtaken:
		r.Trouble = TroubleOvertaken
		r.Problem = fmt.Sprintf("Region %s was the primary, and another region took over: what it accepted since is in its database only.",
			c.Region)
		r.Fix = "Within a day, look there for jobs that are not here, and then make it a standby: docs/operators/regions.md, Two primaries."
	}
	return r
}

// sentence makes a sentence of an error.
func sentence(failure string) string {
	if failure == "" {
		return "It was not asked yet."
	}
	return string(upper(failure[0])) + failure[1:] + "."
}

func upper(b byte) byte {
	if b >= 'a' && b <= 'z' {
		return b - 'a' + 'A'
	}
	return b
}
