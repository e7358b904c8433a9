package region

import (
	"context"
	"testing"
	"time"

	"github.com/reelay/reelay/models/modelstest"
	"github.com/reelay/reelay/models/regions"
	"github.com/stretchr/testify/require"
)

func TestReport(t *testing.T) {
	t.Parallel()

	t.Run("JudgesPeers", func(t *testing.T) {
		t.Parallel()
		newest := regions.Promotion{Epoch: 2, Region: "eu", Installation: "one"}
		for name, c := range map[string]struct {
			claim         *Claim
			trouble, word string
			state         string
		}{
			"AStandbyThatWaits":   {&Claim{Region: "us", Epoch: 2, Installation: "one"}, "", "", "WAITS"},
			"OneThatKnowsNothing": {&Claim{Region: "us"}, "", "", "WAITS"},
			"OneThatIsSilent":     {nil, "SILENT", "It does not answer: no route.", "SILENT"},
			"OneOfThisRegion": {&Claim{Region: "eu", Epoch: 2, Primary: true, Installation: "one"}, "FOREIGN",
				"this region itself, eu", "FOREIGN"},
			"OneThatIsNoCopy": {&Claim{Region: "us", Epoch: 7, Primary: true, Installation: "two"}, "FOREIGN", "no copy of this one",
				"FOREIGN"},
			"OneThatServesToo": {&Claim{Region: "us", Epoch: 1, Primary: true, Installation: "one"}, "SERVES_TOO",
				"(epoch 1; here it is 2)", "SERVES_TOO"},
			"OneThatTookOver": {&Claim{Region: "us", Epoch: 3, Primary: true, Installation: "one"}, "SERVES_TOO",
				"took over from this one (epoch 3; here it is 2)", "SERVES_TOO"},
			"OneThatWasOvertaken": {&Claim{Region: "us", Epoch: 2, Installation: "one", Overtaken: true}, "OVERTAKEN",
				"in its database only", "OVERTAKEN"},
			"OneWithoutADatabase":  {&Claim{Region: "us", Epoch: 0, Installation: ""}, "", "", "WAITS"},
			"OneThatNamesAnother":  {&Claim{Region: "us", Epoch: 1, Installation: "one"}, "", "", "WAITS"},
			"OneWithALaterStandby": {&Claim{Region: "us", Epoch: 9, Installation: "one"}, "", "", "WAITS"},
		} {
			s := &Standing{Region: "eu", Newest: newest, Peers: []Peer{{Address: "https://api.us", Claim: c.claim,
				Failure: "it does not answer: no route"}}}

			got := s.Report().Peers[0]

			require.Equal(t, Trouble(c.trouble), got.Trouble, name)
			require.Contains(t, got.Problem, c.word, name)
			require.Equal(t, c.trouble != "", got.Fix != "", name)
			require.Equal(t, c.claim != nil, got.Answers, name)
			require.Equal(t, c.state, got.State(), name)
		}
		standby := &Standing{Region: "us", Newest: newest, Server: regions.Server{Standby: true}, Peers: answering(Claim{Region: "eu",
			Epoch: 2, Primary: true, Installation: "one"})}
		require.Equal(t, "SERVES", standby.Report().Peers[0].State(), "the primary of a standby is no rival")
		require.False(t, standby.Report().Serves)
		require.Equal(t, "It was not asked yet.", (&Standing{Peers: []Peer{{}}}).Report().Peers[0].Problem)
	})

	t.Run("WarnsOfThisRegion", func(t *testing.T) {
		t.Parallel()
		peers := answering(Claim{Region: "us", Epoch: 1})
		eu := regions.Promotion{Epoch: 1, Region: "eu"}
		may := regions.Server{MayPromote: true, Role: "reelay", Database: "reelay"}
		with := func(change func(*regions.Server)) regions.Server {
			s := may
			change(&s)
			return s
		}
		for name, c := range map[string]struct {
			standing Standing
			want     []string
		}{
			"NotOfAPrimary": {Standing{Region: "eu", Newest: eu, Server: may, Peers: peers}, nil},
			"NotOfAStandby": {Standing{Region: "us", Newest: eu, Server: with(func(s *regions.Server) {
				s.Standby, s.Receiving = true,
					true
			}), Peers: peers}, nil},
			"OfOneWithoutPeers": {Standing{Region: "eu", Newest: eu, Server: may},
				[]string{"No peers are set"}},
			"OfStuckCommits": {Standing{Region: "eu", Newest: eu, Server: with(func(s *regions.Server) {
				s.CommitsWait,
					s.Synchronous = true, "us"
			}), Peers: peers},
				[]string{"no write succeeds"}},
			"OfAMissingRight": {Standing{Region: "eu", Newest: eu, Server: with(func(s *regions.Server) { s.MayPromote = false }),
				Peers: peers},
				[]string{"The role reelay may not promote"}},
			"OfAStandbyInTrouble": {Standing{Region: "eu", Newest: eu, Server: with(func(s *regions.Server) {
				s.Standby,
					s.Synchronous = true, "us"
			}), Peers: peers},
				[]string{"called eu as this region is", "receives nothing from eu", "synchronous_standby_names is us here"}},
		} {
			got := c.standing.Report().Warnings
			require.Len(t, got, len(c.want), name)
			for i, want := range c.want {
				require.Contains(t, got[i].Problem, want, name)
				require.NotEmpty(t, got[i].Fix, name)
			}
		}
		require.Contains(t, (&Standing{Server: may}).PromoteRight(),
			"`psql -d reelay -c 'GRANT EXECUTE ON FUNCTION pg_promote(boolean, integer) TO reelay'`")
	})

	t.Run("DoesNotServeOnceAnotherTookOver", func(t *testing.T) {
		t.Parallel()
		s := &Standing{Region: "eu", Newest: regions.Promotion{Epoch: 1, Region: "eu"}}
		require.True(t, s.Report().Serves)
		s.Peers = answering(Claim{Region: "us", Epoch: 2, Primary: true})
		require.False(t, s.Report().Serves)
	})

	t.Run("ListsPromotions", func(t *testing.T) {
		t.Parallel()
		db := modelstest.DB(t)
		p := &Promoter{Region: "eu", Peers: saying(), DB: db, By: "root@db2"}
		s, err := p.Look(t.Context())
		require.NoError(t, err)
		require.Empty(t, s.Report().Promotions)
		_, err = regions.Promote(t.Context(), db, 0, "us", regions.Takeover{})
		require.NoError(t, err)
		s, err = p.Look(t.Context())
		require.NoError(t, err)
		_, err = p.Promote(t.Context(), s, func(string) {})
		require.NoError(t, err)
		require.NoError(t, regions.Learn(t.Context(), db, 3, "us"))

		s, err = p.Look(t.Context())
		require.NoError(t, err)
		r := s.Report()

		require.Len(t, r.Promotions, 3)
		for i := range r.Promotions {
			require.WithinDuration(t, time.Now(), r.Promotions[i].At, time.Minute)
			r.Promotions[i].At = time.Time{}
		}
		require.Equal(t, []ReportedPromotion{
			{Epoch: 3, Region: "us", From: "eu", Learned: true}, {Epoch: 2, Region: "eu", From: "us", By: "root@db2"}, {Epoch: 1,
				Region: "us"},
		}, r.Promotions)
		require.False(t, r.Serves)
		require.Empty(t, r.Standbys)
	})
}

func TestGuardKeepsAnswers(t *testing.T) {
	t.Parallel()

	db, peers := modelstest.DB(t), saying()
	guard := &Guard{Name: "eu", Peers: peers}
	require.Empty(t, guard.Ask(t.Context()))
	require.NoError(t, guard.Enter(t.Context(), db))
	one := installation(t, db)
	peers.set(Claim{Region: "us", Installation: one})
	_, err := guard.look(t.Context(), db)
	require.NoError(t, err)
	seen := guard.Ask(t.Context())
	require.Len(t, seen, 1)
	require.NotNil(t, seen[0].AnsweredAt)
	require.Nil(t, seen[0].RivalAt)

	require.Equal(t, map[string]string{"https://api.us": ""}, guard.told.of)
	peers.set(Claim{Region: "us", Epoch: 1, Primary: true, Installation: one})
	_, err = guard.look(t.Context(), db)
	require.NoError(t, err)
	guard.Peers = silent{}
	_, err = guard.look(t.Context(), db)
	require.NoError(t, err)

	seen = guard.Ask(t.Context())
	require.Equal(t, map[string]string{"https://api.us": "It does not answer."}, guard.told.of, "the log says what changes")
	require.Nil(t, seen[0].Claim)
	require.NotNil(t, seen[0].AnsweredAt, "it is known when it answered last")
	require.NotNil(t, seen[0].RivalAt, "and when it was a rival")
}

// silent does not answer.
type silent struct{}

func (silent) Ask(context.Context) []Peer {
	return []Peer{{Address: "https://api.us", Failure: "it does not answer"}}
}
