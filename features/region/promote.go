package region

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// Age is how old the newest transaction is that came from the primary: what was acknowledged there since then may be lost. It returns
// false if that is not known, and 0 if nothing is taken over.
func (s *Standing) Age() (age time.Duration, known bool) {
	if !s.TakesOver() {
		return 0, true
	}
	if s.Server.LastCommit == nil {
		return 0, false
	}
	return max(0, s.Server.Now.Sub(*s.Server.LastCommit)), true
}

// Refusal returns why the region cannot be promoted now, and what to do, or nil.
func (s *Standing) Refusal() error {
	if s.Newest.Learned {
		return fmt.Errorf("region %s took over (epoch %d), and this database lacks what it has: it is too old to take over. Make it a standby of %s",
			s.Newest.Region, s.Newest.Epoch, s.Newest.Region)
	}
	for _, peer := range rivals(claims(s.Peers), s.Region, s.Newest) {
		if peer.Epoch > s.Newest.Epoch {
			return fmt.Errorf("region %s is at epoch %d, and this database only at %d: it is too old to take over. Make it a standby of %s",
				peer.Region, peer.Epoch, s.Newest.Epoch, peer.Region)
		}
		if s.TakesOver() {
			return fmt.Errorf("region %s serves: stop its api and control processes and its PostgreSQL first, or two regions accept jobs", peer.Region)
		}
	}
	switch {
	case s.Server.Standby && s.Server.Receiving:
		return errors.New("the primary's PostgreSQL still sends to this standby, so it runs: stop it first, or two servers accept transactions. " +
			"If it was cut off less than a minute ago, wait")
	case s.Server.Standby && s.Server.Paused:
		return errors.New("the replay of this standby is paused: run SELECT pg_wal_replay_resume() as a superuser")
	case s.Server.Standby && !s.Server.MayPromote:
		return errors.New("the role of DATABASE_URL may not promote: run `SELECT pg_promote()` as a superuser, and this command again; or, before, " +
			"on the primary: GRANT EXECUTE ON FUNCTION pg_promote TO the role")
	case !s.Server.Standby && s.Newest.Epoch > 0 && !s.TakesOver() && !s.contested():
		return fmt.Errorf("region %s is the primary already, since %s (epoch %d)", s.Region, s.Newest.At.UTC().Format(time.RFC3339), s.Newest.Epoch)
	}
	return nil
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
	say("entering region " + p.Region + " as the primary")
	if made, err := regions.Promote(ctx, p.DB, newest.Epoch, p.Region, p.By); err != nil {
		return nil, fmt.Errorf("enter the promotion: %w", err)
	} else if !made {
		return nil, errors.New("somebody else promotes a region at the same time, or `reelay migrate` did not run: look with `reelay region`")
	}
	newest, err = regions.Newest(ctx, p.DB)
	return &newest, err
}
