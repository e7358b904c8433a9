package agent

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/stretchr/testify/require"
)

func TestIdentity(t *testing.T) {
	t.Parallel()

	t.Run("IsProvedAnewForEachTry", func(t *testing.T) {
		t.Parallel()
		proofs := 0
		story(t, func(c *control, _ *model) { c.lose("registerWorker", 1); c.queue() }, func(t *testing.T, f *fixture) {
			<-f.model.started
			f.leave(t)
			require.Equal(t, 4, proofs, "two failures of the metadata server, a lost answer, and a success")
			require.Len(t, f.of("registerWorker"), 2)
		}, func(c *Config) {
			c.Identity = func(context.Context) (string, error) {
				if proofs++; proofs < 3 {
					return "", errors.New("the metadata server does not answer")
				}
				return fmt.Sprint("proof ", proofs), nil
			}
		})
	})

	t.Run("IsRefusedForGood", func(t *testing.T) {
		t.Parallel()
		story(t, func(c *control, _ *model) { c.refuseAll(client.CodeUnauthenticated) }, func(t *testing.T, f *fixture) {
			require.ErrorContains(t, <-f.ended, "the control plane refuses the identity of this machine: refused")
			require.Len(t, f.of("registerWorker"), identityTries)
			require.Less(t, time.Since(f.began), 20*time.Second)
		}, func(c *Config) {
			c.Identity = func(context.Context) (string, error) { return "proof", nil }
		})
	})
}
