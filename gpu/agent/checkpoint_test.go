package agent

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/runtime"
	"github.com/stretchr/testify/require"
)

func TestCheckpoint(t *testing.T) {
	t.Parallel()

	t.Run("IsAskedForAtTheLeasesPaceAndCommitted", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			order := <-f.model.started
			for range 3 {
				require.Equal(t, "checkpoint", <-f.model.orders)
				f.model.messages <- &runtime.Checkpoint{Path: file(t, order, "state"), Step: 7, Percent: 62}
			}
			synctest.Wait()

			committed := f.of("commitCheckpoint")
			require.Len(t, committed, 3)
			for i, commit := range committed {
				require.Equal(t, time.Duration(i+1)*30*time.Second, commit.at)
			}
			require.Equal(t, 62.0, committed[0].in["percent"])
			require.Equal(t, object{"step": 7.0, "percent": 62.0}, committed[0].in["object"].(object)["metadata"])
			require.NoFileExists(t, order.Workdir+"/state")
		})
	})

	t.Run("OfTheLeaseIsResumedFrom", func(t *testing.T) {
		t.Parallel()
		sum, size, err := client.Checksum(strings.NewReader("state"))
		require.NoError(t, err)
		checkpoint := func(id string) object {
			return object{"id": id, "sizeBytes": size, "checksum": sum, "url": "http://store/" + id, "metadata": object{"step": 7, "percent": 62}}
		}
		prepare := func(c *control, _ *model) {
			c.queue(checkpoint("art_new"), checkpoint("art_old"))
			c.stored["/art_new"], c.stored["/art_old"] = "rotte", "state"
		}
		story(t, prepare, func(t *testing.T, f *fixture) {
			order := <-f.model.started
			f.model.messages <- &runtime.Resumed{Path: order.Checkpoints[0].Path, Step: 7, Note: "torch 2.14 made it"}
			time.Sleep(5 * time.Second)

			require.Len(t, order.Checkpoints, 1, "what is not whole must not be tried")
			require.Equal(t, 7, order.Checkpoints[0].Step)
			rejected := f.of("rejectCheckpoint")
			require.Len(t, rejected, 1)
			require.Equal(t, "art_new", rejected[0].in["artifactId"])
			var resumed []object
			for _, report := range f.of("reportProgress") {
				if report.in["resumedFrom"] != nil {
					resumed = append(resumed, report.in)
				}
			}
			require.Len(t, resumed, 1, "it must be told once")
			require.Equal(t, "art_old", resumed[0]["resumedFrom"])
			require.Equal(t, "resuming from checkpoint at 62 %", resumed[0]["message"])
			require.Equal(t, "torch 2.14 made it", resumed[0]["resumedNote"])
		})
	})

	t.Run("ThatDoesNotRestoreIsRejected", func(t *testing.T) {
		t.Parallel()
		sum, size, err := client.Checksum(strings.NewReader("state"))
		require.NoError(t, err)
		prepare := func(c *control, _ *model) {
			c.queue(object{"id": "art_1", "sizeBytes": size, "checksum": sum, "url": "http://store/art_1"})
			c.stored["/art_1"] = "state"
		}
		story(t, prepare, func(t *testing.T, f *fixture) {
			order := <-f.model.started
			f.model.messages <- &runtime.CheckpointRejected{Path: order.Checkpoints[0].Path, Reason: "another model"}
			synctest.Wait()

			require.Equal(t, "another model", f.of("rejectCheckpoint")[0].in["reason"])
		})
	})
}
