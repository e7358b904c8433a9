package agent

import (
	"path/filepath"
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
			granted["inputs"] = []object{
				{"id": "art_1", "contentType": "image/png", "sizeBytes": size, "checksum": sum, "url": "http://store/art_1"},
				{"id": "art_2", "contentType": "video/mp4", "sizeBytes": size, "checksum": sum, "url": "http://store/art_2"},
				{"id": "art_2", "contentType": "video/mp4", "sizeBytes": size, "checksum": sum, "url": "http://store/art_2"},
				{"id": "art_3", "contentType": "video/odd", "sizeBytes": size, "checksum": sum, "url": "http://store/art_3"},
			}
			granted["inputNames"] = []string{"referenceImage", "clips.0", "clips.1", "../../clips.2"}
			c.leases = append(c.leases, granted)
			c.stored["/art_1"], c.stored["/art_2"], c.stored["/art_3"] = "picture", stored, "picture"
		}
	}

	t.Run("AreFilesOfTheWorkdirWhenTheRuntimeStarts", func(t *testing.T) {
		t.Parallel()
		story(t, queued("picture"), func(t *testing.T, f *fixture) {
			order := <-f.model.started

			require.Equal(t, map[string]string{
				"referenceImage": filepath.Join(order.Workdir, "input-0.png"),
				"clips.0":        filepath.Join(order.Workdir, "input-1.mp4"),
				"clips.1":        filepath.Join(order.Workdir, "input-1.mp4"),
				"../../clips.2":  filepath.Join(order.Workdir, "input-3"),
			}, order.Inputs)
			for _, path := range order.Inputs {
				require.FileExists(t, path)
			}
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
			require.Contains(t, failed[0].in["message"], "the input clips.0")
			require.Empty(t, f.model.started)
		})
	})
}
