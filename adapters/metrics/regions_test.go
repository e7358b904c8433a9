package metrics

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/reelay/reelay/features/region"
	"github.com/reelay/reelay/models/alerts"
	"github.com/stretchr/testify/require"
)

func TestRegions(t *testing.T) {
	t.Parallel()

	t.Run("SayWhoIsThePrimaryAndWhoAnswers", func(t *testing.T) {
		t.Parallel()
		m := New(Sources{Queues: none, Region: func(context.Context) (*region.Report, error) {
			return &region.Report{Region: "eu", Serves: true, Epoch: 2, Since: new(time.Unix(1_000, 500e6)), Peers: []region.ReportedPeer{
				{Address: "https://a", Answers: true}, {Address: "https://b", Trouble: region.TroubleSilent},
			}}, nil
		}})
		require.Equal(t, []string{
			`reelay_region_epoch 2`,
			`reelay_region_peer_trouble{peer="https://a",trouble="FOREIGN"} 0`, `reelay_region_peer_trouble{peer="https://a",trouble="OVERTAKEN"} 0`,
			`reelay_region_peer_trouble{peer="https://a",trouble="SERVES_TOO"} 0`, `reelay_region_peer_trouble{peer="https://a",trouble="SILENT"} 0`,
			`reelay_region_peer_trouble{peer="https://b",trouble="FOREIGN"} 0`, `reelay_region_peer_trouble{peer="https://b",trouble="OVERTAKEN"} 0`,
			`reelay_region_peer_trouble{peer="https://b",trouble="SERVES_TOO"} 0`, `reelay_region_peer_trouble{peer="https://b",trouble="SILENT"} 1`,
			`reelay_region_peer_up{peer="https://a"} 1`, `reelay_region_peer_up{peer="https://b"} 0`,
			`reelay_region_primary{region="eu"} 1`, `reelay_region_promoted_timestamp_seconds 1000.5`,
		}, scrape(t, m))
	})

	t.Run("AreAbsentIfThereIsOneOrTheyAreNotKnown", func(t *testing.T) {
		t.Parallel()
		for _, err := range []error{nil, errors.New("down")} {
			m := New(Sources{Queues: none, Region: func(context.Context) (*region.Report, error) { return nil, err }})
			require.Empty(t, scrape(t, m))
		}
	})

	t.Run("StandbysAreCounted", func(t *testing.T) {
		t.Parallel()
		m := New(Sources{Queues: none, Health: func(context.Context) (*alerts.Health, error) {
			return &alerts.Health{Standbys: 3, AsyncStandbys: 1, StandbyBehindBytes: 7, CommitsWait: true}, nil
		}})
		require.Subset(t, scrape(t, m), []string{`reelay_standbys{state="waited_for"} 2`, `reelay_standbys{state="async"} 1`,
			`reelay_standby_behind_bytes 7`, `reelay_commits_wait_for_standby 1`})
	})
}
