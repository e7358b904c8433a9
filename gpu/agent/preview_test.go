package agent

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reelay/reelay/gpu/runtime"
	"github.com/stretchr/testify/require"
)

func TestPreview(t *testing.T) {
	t.Parallel()
	preview := func(t *testing.T, order runtime.Start, name string, step int) *runtime.Preview {
		return &runtime.Preview{Path: file(t, order, name), Step: step}
	}

	t.Run("IsUploadedAtMostEveryThreeSeconds", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			order := <-f.model.started
			for i, name := range []string{"a.jpg", "b.jpg", "c.jpg", "d.webp"} {
				f.model.messages <- preview(t, order, name, i)
			}
			synctest.Wait()
			require.Len(t, f.of("commitArtifact"), 1)
			require.NoFileExists(t, filepath.Join(order.Workdir, "b.jpg"), "a newer one replaced it")
			time.Sleep(previewEvery)
			synctest.Wait()

			sent := f.of("commitArtifact")
			require.Len(t, sent, 2)
			require.Equal(t, "PREVIEW", sent[0].in["artifactType"])
			require.Equal(t, previewEvery, sent[1].at-sent[0].at)
			require.Equal(t, "image/webp", sent[1].in["object"].(object)["contentType"])
			require.NoFileExists(t, filepath.Join(order.Workdir, "d.webp"))
		})
	})

	t.Run("IsDroppedIfItIsTooLargeOrNotAPicture", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			order := <-f.model.started
			large := preview(t, order, "large.jpg", 1)
			require.NoError(t, os.Truncate(large.Path, 50<<20))
			empty := preview(t, order, "empty.jpg", 2)
			require.NoError(t, os.Truncate(empty.Path, 0))
			link := filepath.Join(order.Workdir, "link.jpg")
			require.NoError(t, os.Symlink("/etc/hostname", link))

			for _, p := range []*runtime.Preview{large, empty, {Path: link}, preview(t, order, "text.txt", 3),
				{Path: filepath.Join(order.Workdir, "none.jpg")}} {
				f.model.messages <- p
				time.Sleep(previewEvery)
			}
			f.model.messages <- &runtime.Result{}
			synctest.Wait()

			require.Empty(t, f.of("commitArtifact"))
			require.Len(t, f.of("completeJob"), 1, "the job continues")
		})
	})
}

func TestModel(t *testing.T) {
	t.Parallel()

	t.Run("IsHandedOverWithItsVersionAndSettings", func(t *testing.T) {
		t.Parallel()
		prepare := func(c *control, _ *model) {
			leased := lease()
			leased["model"] = object{"version": 3, "settings": object{"weights": "/w"}}
			c.leases = append(c.leases, leased)
		}
		story(t, prepare, func(t *testing.T, f *fixture) {
			order := <-f.model.started

			require.Equal(t, 3, order.Version)
			require.JSONEq(t, `{"weights": "/w"}`, string(order.Settings))
			require.Equal(t, runtime.Model{Name: "testcard", Version: 3, Settings: order.Settings}, <-f.model.loads)
		})
	})
}
