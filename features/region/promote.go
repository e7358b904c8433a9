package region

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/models/regions"
	"github.com/uptrace/bun"
)

// Standing is what is known of the regions.
type Standing struct {
	Region string
	Server regions.Server
	// Newest is the promotion in force, as this region's database knows it.
	Newest regions.Promotion
	// Promotions are the newest ones, the newest first.
	Promotions []regions.Promotion
	Peers      []Peer
}

// Promoter makes a region the primary.
type Promoter struct {
	Region string
	Peers  Peers
	DB     *bun.DB
	// By is who promotes, such as root@db2.
	By string
}

// listedPromotions is how many promotions are shown.
const listedPromotions = 20

// Look returns how the region stands.
func (p *Promoter) Look(ctx context.Context) (*Standing, error) {
	server, err := regions.ReadServer(ctx, p.DB)
	if err != nil {
		return nil, fmt.Errorf("ask PostgreSQL for its part in the replication: %w", err)
	}
	newest, err := regions.Newest(ctx, p.DB)
	if err != nil {
		return nil, fmt.Errorf("read which region is the primary: %w", err)
	}
	promotions, err := regions.List(ctx, p.DB, listedPromotions)
	if err != nil {
		return nil, fmt.Errorf("list the promotions: %w", err)
	}
	return &Standing{Region: p.Region, Server: server, Newest: newest, Promotions: promotions, Peers: p.Peers.Ask(ctx)}, nil
}

// TakesOver is true if another region was the primary: then what it acknowledged last can be lost.
func (s *Standing) TakesOver() bool { return s.Newest.Region != s.Region }

// Age is how old the newest transaction is that came from the primary. It returns false if that is not known, and 0 if nothing is
// taken over.
func (s *Standing) Age() (age time.Duration, known bool) {
	if !s.TakesOver() {
		return 0, true
	}
	if s.Server.LastCommit == nil {
		return 0, false
	}
	return max(0, s.Server.Now.Sub(*s.Server.LastCommit)), true
}

// Loss is of how long this region lacks what the primary acknowledged, as far as is known: from the newest transaction that came from
// it until it was last heard. If that is not known, it is [Standing.Age], and heard is false. What the primary acknowledged while this
// region did not hear it, it cannot know.
func (s *Standing) Loss() (loss time.Duration, known, heard bool) {
	age, known := s.Age()
	if !known || !s.TakesOver() || s.Server.HeardAt == nil {
		return age, known, !s.TakesOver()
	}
	return max(0, s.Server.HeardAt.Sub(*s.Server.LastCommit)), true, true
}

// PromoteRight is how the role gets the right to promote: rights on functions are those of one database.
func (s *Standing) PromoteRight() string {
	return fmt.Sprintf("as a superuser, on the primary: `psql -d %s -c 'GRANT EXECUTE ON FUNCTION pg_promote(boolean, integer) TO %s'`",
		s.Server.Database, s.Server.Role)
}

// Hindrances returns why the region cannot be promoted now, and what to do.
func (s *Standing) Hindrances() (all []string) {
	say := func(format string, args ...any) []string {
		all = append(all, fmt.Sprintf(format, args...))
		return all
	}
	if s.Newest.Learned {
		return say("region %s took over (epoch %d), and this database lacks what it has: it is too old to take over. Make it a standby of %s",
			s.Newest.Region, s.Newest.Epoch, s.Newest.Region)
	}
	for _, peer := range rivals(claims(s.Peers), s.Region, s.Newest) {
		if peer.Epoch > s.Newest.Epoch {
			return say("region %s is at epoch %d, and this database only at %d: it is too old to take over. Make it a standby of %s",
				peer.Region, peer.Epoch, s.Newest.Epoch, peer.Region)
		}
		if s.TakesOver() {
			say("region %s serves: stop its api and control processes and its PostgreSQL first, or two regions accept jobs", peer.Region)
		}
	}
	if !s.Server.Standby {
		if s.Newest.Epoch > 0 && !s.TakesOver() && !s.contested() {
			say("region %s is the primary already, since %s (epoch %d)", s.Region, s.Newest.At.UTC().Format(time.RFC3339), s.Newest.Epoch)
		}
		return all
	}
	if s.Server.Receiving {
		say("the primary's PostgreSQL still sends to this standby, so it runs: stop it first, or two servers accept transactions. " +
			"If it was cut off less than a minute ago, wait")
	}
	if s.Server.Paused {
		say("the replay of this standby is paused: run SELECT pg_wal_replay_resume() as a superuser")
	}
	if !s.Server.MayPromote {
		say("the role %s may not promote it. Before a disaster, run %s. After one, run SELECT pg_promote() here as a superuser, and this command again",
			s.Server.Role, s.PromoteRight())
	}
	return all
}

// Refusal returns why the region cannot be promoted now, and what to do, or nil.
func (s *Standing) Refusal() error {
	if all := s.Hindrances(); len(all) > 0 {
		return errors.New(strings.Join(all, ". Also: "))
	}
	return nil
}

// Unheard says which other regions did not say what they are: a promotion cannot know whether they serve.
func (s *Standing) Unheard() (all []string) {
	if len(s.Peers) == 0 {
		return []string{"No peers are set (REELAY_REGION_PEERS): nothing was asked"}
	}
	for _, p := range s.Peers {
		if r := s.peer(p); r.Trouble == TroubleSilent || r.Trouble == TroubleForeign {
			all = append(all, p.Address+": "+strings.TrimSuffix(r.Problem, "."))
		}
	}
	return all
}

// contested reports whether another region claims the same epoch.
func (s *Standing) contested() bool {
	return slices.ContainsFunc(rivals(claims(s.Peers), s.Region, s.Newest), func(c Claim) bool { return c.Epoch == s.Newest.Epoch })
}

// Promote ends the recovery of the standby, once it has replayed all that it received, and makes the region the primary. Say is told
// what it does. It can be repeated: each step is skipped if it was done.
func (p *Promoter) Promote(ctx context.Context, s *Standing, say func(string)) (*regions.Promotion, error) {
	if s.Server.Standby {
		// PostgreSQL replays all that it received first. The end of that can be half a transaction, of which nothing is left.
		say("promoting PostgreSQL")
		if done, err := regions.EndRecovery(ctx, p.DB); err != nil {
			return nil, fmt.Errorf("promote PostgreSQL: %w", err)
		} else if !done {
			return nil, errors.New("PostgreSQL was told to promote, and still replays what it received after a minute: look at its log, and run this again")
		}
	}
	newest, err := regions.Newest(ctx, p.DB)
	if err != nil {
		return nil, fmt.Errorf("read which region is the primary: %w", err)
	}
	takeover := regions.Takeover{By: p.By}
	if s.TakesOver() {
		// PostgreSQL keeps it after its promotion, and has replayed the rest by now.
		after, err := regions.ReadServer(ctx, p.DB)
		if err != nil {
			return nil, fmt.Errorf("read of when the newest transaction is: %w", err)
		}
		takeover.NewestAt, takeover.HeardAt = cmp.Or(after.LastCommit, s.Server.LastCommit), s.Server.HeardAt
	}
	say("recording region " + p.Region + " as the primary")
	if made, err := regions.Promote(ctx, p.DB, newest.Epoch, p.Region, takeover); err != nil {
		return nil, fmt.Errorf("record the promotion: %w", err)
	} else if !made {
		return nil, errors.New("somebody else promotes a region at the same time, or `reelay migrate` did not run: look with `reelay region`")
	}
	newest, err = regions.Newest(ctx, p.DB)
	newest.NewestAt, newest.HeardAt = takeover.NewestAt, takeover.HeardAt
	return &newest, err
}
