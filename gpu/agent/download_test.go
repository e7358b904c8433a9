package agent

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/runtime"
)

func TestInputs(t *testing.T) {
	t.Parallel()

	sum, size, err := client.Checksum(strings.NewReader("picture"))
	require.NoError(t, err)
	queued := func(stored string) func(*control, *model) {
		return func(c *control, _ *model) {
			granted := lease()
			granted["inputs"] = []object{{"id": "art_1", "sizeBytes": size, "checksum": sum, "url": "http://store/art_1"}}
			c.leases = append(c.leases, granted)
			c.stored["/art_1"] = stored
		}
	}

	t.Run("AreFilesOfTheWorkdirWhenTheRuntimeStarts", func(t *testing.T) {
		t.Parallel()
		story(t, queued("picture"), func(t *testing.T, f *fixture) {
			order := <-f.model.started

			path := order.Inputs["referenceImage"]
			require.True(t, strings.HasPrefix(path, order.Workdir+"/"))
			require.FileExists(t, path)
			f.model.messages <- &runtime.Result{}
			synctest.Wait()
		})
	})

	t.Run("ThatAreNotWholeEndTheAttempt", func(t *testing.T) {
		t.Parallel()
		story(t, queued("pictures"), func(t *testing.T, f *fixture) {
			synctest.Wait()

			failed := f.of("failJob")
			require.Len(t, failed, 1)
			require.Equal(t, "TRANSIENT", failed[0].in["class"])
			require.Contains(t, failed[0].in["message"], "the reference image")
			require.Empty(t, f.model.started)
		})
	})
}
