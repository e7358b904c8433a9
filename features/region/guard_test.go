package region

import (
	"context"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/reelay/reelay/models/regions"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

func TestMain(m *testing.M) { modelstest.Main(m.Run) }

// said are peers that say the same until they are told otherwise.
type said struct{ claims chan []Claim }

func saying(claims ...Claim) *said {
	s := &said{make(chan []Claim, 1)}
	s.claims <- claims
	return s
}

func (s *said) set(claims ...Claim) {
	<-s.claims
	s.claims <- claims
}

func (s *said) Ask(context.Context) []Peer {
	claims := <-s.claims
	s.claims <- claims
	return answering(claims...)
}

// answering are peers that answer.
func answering(claims ...Claim) (all []Peer) {
	for _, c := range claims {
		all = append(all, Peer{Address: "https://api." + c.Region, Claim: &c})
	}
	return all
}

func TestJudge(t *testing.T) {
	t.Parallel()

	eu := func(epoch int64) regions.Promotion { return regions.Promotion{Epoch: epoch, Region: "eu"} }
	for name, c := range map[string]struct {
		newest regions.Promotion
		peers  []Claim
		want   string
	}{
		"ServesAlone":                 {eu(1), nil, ""},
		"ServesFirst":                 {regions.Promotion{}, nil, ""},
		"ServesBesideAStandby":        {eu(3), []Claim{{Region: "us", Epoch: 3}}, ""},
		"ServesBesideAnOlderPrimary":  {eu(3), []Claim{{Region: "us", Epoch: 2, Primary: true}}, ""},
		"ServesBesideItsOwnProcesses": {eu(3), []Claim{{Region: "eu", Epoch: 3, Primary: true}}, ""},
		"WaitsForAnotherFirst": {regions.Promotion{}, []Claim{{Region: "us", Epoch: 0, Primary: true}},
			"Region us is the primary"},
		"WaitsForALaterPrimary": {eu(3), []Claim{{Region: "us", Epoch: 4, Primary: true}},
			"promoted (epoch 4) after this database (epoch 3)"},
		"WaitsIfBothWerePromoted": {eu(3), []Claim{{Region: "us", Epoch: 3, Primary: true}},
			"Region eu and another were both promoted (epoch 3). Neither serves"},
		"WaitsIfItsDatabaseNamesAnother": {regions.Promotion{Epoch: 2, Region: "us"}, nil,
			"Region us is the primary (epoch 2), not eu. Run `reelay region promote`"},
		"WaitsAlsoBesideAnotherThatFails": {regions.Promotion{Epoch: 2, Region: "us"}, []Claim{{Region: "us", Epoch: 2, Primary: true}},
			"Region us is the primary"},
		"DoesNotFearLaterStandbys":    {eu(1), []Claim{{Region: "us", Epoch: 5}}, ""},
		"DoesNotFearOtherDatabases":   {eu(1), []Claim{{Region: "us", Epoch: 5, Primary: true, Installation: "another"}}, ""},
		"WaitsOnceItLearnedOfAnother": {regions.Promotion{Epoch: 4, Region: "us", Learned: true}, nil, "while this region was away"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			why := (&Guard{Name: "eu"}).judge(c.newest, c.peers)

			if c.want == "" {
				require.Empty(t, why)
			} else {
				require.Contains(t, why, c.want)
			}
		})
	}
}

func TestGuard(t *testing.T) {
	t.Parallel()

	t.Run("MakesTheFirstRegionThePrimary", func(t *testing.T) {
		t.Parallel()
		db := modelstest.DB(t)
		guard := &Guard{Name: "eu", Peers: saying()}
		require.False(t, guard.Claim().Primary)

		require.NoError(t, guard.Enter(t.Context(), db))

		require.Equal(t, Claim{Region: "eu", Epoch: 1, Primary: true, Installation: installation(t, db)}, guard.Claim())
		newest, err := regions.Newest(t.Context(), db)
		require.NoError(t, err)
		require.Equal(t, "eu", newest.Region)
		require.NoError(t, (&Guard{Name: "eu", Peers: saying()}).Enter(t.Context(), db), "another process of it")
	})

	t.Run("WaitsUntilItsRegionIsPromoted", func(t *testing.T) {
		t.Parallel()
		db := modelstest.DB(t)
		_, err := regions.Promote(t.Context(), db, 0, "us", regions.Takeover{By: "root@db2"})
		require.NoError(t, err)
		guard := &Guard{Name: "eu", Peers: saying()}
		entered := make(chan error, 1)
		go func() { entered <- guard.Enter(t.Context(), db) }()
		testrun.Eventually(t, "it says why it waits", func() bool { return guard.Why() != "" })
		require.False(t, guard.Claim().Primary)

		made, err := regions.Promote(t.Context(), db, 1, "eu", regions.Takeover{By: "root@db2"})
		require.NoError(t, err)
		require.True(t, made)

		require.NoError(t, testrun.Receive(t, "it enters", entered))
		require.Empty(t, guard.Why())
		require.Equal(t, Claim{Region: "eu", Epoch: 2, Primary: true, Installation: installation(t, db)}, guard.Claim())
	})

	t.Run("SaysOfWhomItsStandbyIs", func(t *testing.T) {
		t.Parallel()
		db := modelstest.DB(t)
		guard := &Guard{Name: "us", Peers: saying()}
		guard.Follow(t.Context(), db)
		require.Contains(t, guard.Why(), "no region is the primary yet")
		_, err := regions.Promote(t.Context(), db, 0, "eu", regions.Takeover{})
		require.NoError(t, err)

		guard.Follow(t.Context(), db)

		require.Equal(t, "This region is a standby of eu.", guard.Why())
		require.Equal(t, Claim{Region: "us", Epoch: 1, Installation: installation(t, db)}, guard.Claim())
		wrong := &Guard{Name: "eu", Peers: saying()}
		wrong.Follow(t.Context(), db)
		require.Contains(t, wrong.Why(), "correct REELAY_REGION")
		(*Guard)(nil).Follow(t.Context(), db)
	})

	t.Run("StopsOnceAnotherRegionIsLater", func(t *testing.T) {
		t.Parallel()
		db, peers := modelstest.DB(t), saying()
		guard := &Guard{Name: "eu", Peers: peers}
		require.NoError(t, guard.Enter(t.Context(), db))
		ended := make(chan error, 1)
		go func() { ended <- guard.Watch(t.Context(), db) }()

		peers.set(Claim{Region: "us", Epoch: 2, Primary: true, Installation: installation(t, db)})

		require.ErrorIs(t, testrun.Receive(t, "it stops", ended), ErrFenced)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		later := &Guard{Name: "eu", Peers: saying()}
		go func() { ended <- later.Enter(ctx, db) }()
		testrun.Eventually(t, "it waits also when the other region is silent", func() bool { return later.Why() != "" })
		require.Contains(t, later.Why(), "while this region was away")
		s, err := (&Promoter{Region: "eu", Peers: saying(), DB: db}).Look(t.Context())
		require.NoError(t, err)
		require.ErrorContains(t, s.Refusal(), "too old to take over")
	})

	t.Run("EndsWithItsContext", func(t *testing.T) {
		t.Parallel()
		db := modelstest.DB(t)
		ctx, stop := context.WithCancel(t.Context())
		stop()
		require.NoError(t, (&Guard{Name: "eu", Peers: saying()}).Watch(ctx, db))
		require.ErrorIs(t, (&Guard{Name: "eu", Peers: saying(Claim{Region: "us", Epoch: 9, Primary: true, Installation: installation(t,
			db)})}).Enter(ctx, db), context.Canceled)
		require.NoError(t, (*Guard)(nil).Enter(ctx, db))
		require.NoError(t, (*Guard)(nil).Watch(ctx, db))
	})
}

func TestPromoter(t *testing.T) {
	t.Parallel()

	t.Run("PromotesARegionOnlyOnceAtATime", func(t *testing.T) {
		t.Parallel()
		db := modelstest.DB(t)
		made, err := regions.Promote(t.Context(), db, 0, "us", regions.Takeover{By: "root@db2"})
		require.NoError(t, err)
		require.True(t, made)
		for range 2 {
			made, err = regions.Promote(t.Context(), db, 0, "eu", regions.Takeover{By: "root@db2"})
			require.NoError(t, err)
			require.False(t, made, "it was promoted meanwhile")
		}
		p := &Promoter{Region: "eu", Peers: saying(), DB: db}
		s, err := p.Look(t.Context())
		require.NoError(t, err)
		require.NoError(t, s.Refusal(), "PostgreSQL was promoted by hand")
		_, known := s.Age()
		require.False(t, known, "it replayed nothing")

		promotion, err := p.Promote(t.Context(), s, func(string) {})

		require.NoError(t, err)
		require.Equal(t, int64(2), promotion.Epoch)
		s, err = p.Look(t.Context())
		require.NoError(t, err)
		require.ErrorContains(t, s.Refusal(), "region eu is the primary already")
		s.Peers = answering(Claim{Region: "us", Epoch: 2, Primary: true, Installation: s.Newest.Installation})
		require.NoError(t, s.Refusal(), "both were promoted")
	})

	t.Run("RefusesWhileThePrimaryRuns", func(t *testing.T) {
		t.Parallel()
		may := regions.Server{Standby: true, MayPromote: true}
		with := func(change func(*Standing)) *Standing {
			s := &Standing{Region: "us", Server: may, Newest: regions.Promotion{Epoch: 1, Region: "eu"}}
			change(s)
			return s
		}
		require.NoError(t, with(func(*Standing) {}).Refusal())
		require.NoError(t, with(func(s *Standing) { s.Peers = answering(Claim{Region: "eu", Epoch: 1}) }).Refusal())
		for want, change := range map[string]func(*Standing){
			"region eu serves":     func(s *Standing) { s.Peers = answering(Claim{Region: "eu", Epoch: 1, Primary: true}) },
			"too old to take over": func(s *Standing) { s.Peers = answering(Claim{Region: "ap", Epoch: 3, Primary: true}) },
			"still sends":          func(s *Standing) { s.Server.Receiving = true },
			"is paused":            func(s *Standing) { s.Server.Paused = true },
			"may not promote":      func(s *Standing) { s.Server.MayPromote = false },
		} {
			require.ErrorContains(t, with(change).Refusal(), want)
		}
	})

	t.Run("ListsAllHindrances", func(t *testing.T) {
		t.Parallel()
		s := &Standing{Region: "us", Newest: regions.Promotion{Epoch: 1, Region: "eu"}, Server: regions.Server{Standby: true,
			Receiving: true},
			Peers: answering(Claim{Region: "eu", Epoch: 1, Primary: true})}

		all := s.Report().Hindrances

		require.Len(t, all, 3)
		require.Contains(t, all[0], "region eu serves")
		require.Contains(t, all[1], "still sends")
		require.Contains(t, all[2], "may not promote")
		require.ErrorContains(t, s.Refusal(), ". Also: the role")
	})

	t.Run("SaysWhoWasNotHeard", func(t *testing.T) {
		t.Parallel()
		s := &Standing{Region: "us", Newest: regions.Promotion{Epoch: 1, Region: "eu"}}
		require.Contains(t, s.Unheard()[0], "nothing was asked")
		s.Peers = append(answering(Claim{Region: "ap", Epoch: 1}, Claim{Region: "us"}), Peer{Address: "https://api.eu",
			Failure: "it does not answer (connection refused)"})
		require.Equal(t, []string{"https://api.us: It is this region itself, us",
			"https://api.eu: It does not answer (connection refused)"}, s.Unheard())
	})

	t.Run("MeasuresTheLossUntilThePrimaryWasLastHeard", func(t *testing.T) {
		t.Parallel()
		now := time.Now()
		s := &Standing{Region: "us", Newest: regions.Promotion{Epoch: 1, Region: "eu"}}
		s.Server.Now, s.Server.LastCommit = now, new(now.Add(-time.Hour))
		loss, known, heard := s.Loss()
		require.True(t, known)
		require.False(t, heard)
		require.Equal(t, time.Hour, loss)
		s.Server.HeardAt = new(now.Add(-time.Hour + 3*time.Second))
		loss, known, heard = s.Loss()
		require.True(t, known && heard)
		require.Equal(t, 3*time.Second, loss)
		s.Server.HeardAt = new(now.Add(-time.Hour - time.Second))
		loss, _, _ = s.Loss()
		require.Zero(t, loss, "the clocks of the two differ")
		s.Server.LastCommit = nil
		_, known, _ = s.Loss()
		require.False(t, known)
	})

	t.Run("SaysHowOldTheNewestTransactionIs", func(t *testing.T) {
		t.Parallel()
		now := time.Now()
		s := &Standing{Region: "us", Newest: regions.Promotion{Epoch: 1, Region: "eu"}}
		s.Server.Now, s.Server.LastCommit = now, new(now.Add(-time.Minute))
		age, known := s.Age()
		require.True(t, known)
		require.Equal(t, time.Minute, age)
		s.Server.LastCommit = new(now.Add(time.Second))
		age, _ = s.Age()
		require.Zero(t, age, "the primary's clock was ahead")
		s.Newest.Region = "us"
		s.Server.LastCommit = nil
		age, known = s.Age()
		require.True(t, known)
		require.Zero(t, age, "nothing is taken over")
	})
}

// installation returns the id of a database.
func installation(t *testing.T, db *bun.DB) string {
	t.Helper()
	newest, err := regions.Newest(t.Context(), db)
	require.NoError(t, err)
	require.NotEmpty(t, newest.Installation)
	return newest.Installation
}
