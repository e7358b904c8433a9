package agent

import (
	"context"
	"log/slog"
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

			for _, p := range []*runtime.Preview{large, empty, {Path: link}, preview(t, order, "text.txt", 3), {Path: filepath.Join(order.Workdir, "none.jpg")}} {
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

// offering is a runtime that announces these models.
type offering struct {
	*model
	models []string
}

func (o offering) Announced() runtime.Ready {
	return runtime.Ready{Protocol: runtime.ProtocolVersion, Models: runtime.Offers(o.models...)}
}

func TestHost(t *testing.T) {
	t.Parallel()
	offers := map[string][]string{"diffusers": nil, "gradient": {"gradient"}}
	h := &host{
		commands: []RuntimeCommand{{Name: "diffusers"}, {Name: "gradient"}}, log: slog.New(slog.DiscardHandler),
		launch: func(_ context.Context, c RuntimeCommand) (process, error) {
			return offering{newModel(), offers[c.Name]}, nil
		},
	}

	_, err := h.survey(t.Context(), nil)
	require.ErrorContains(t, err, "name the models to serve with --models")
	models, err := h.survey(t.Context(), []string{"tiny", "gradient"})
	require.NoError(t, err)
	require.Equal(t, []string{"gradient", "tiny"}, models)

	for _, c := range []struct{ model, wanted, runtime string }{
		{"gradient", "gradient", "gradient"}, {"gradient", "", "diffusers"}, {"tiny", "diffusers", "diffusers"},
		{"tiny", "gradient", "diffusers"}, {"tiny", "other", "diffusers"}, {"other", "diffusers", ""},
	} {
		command, _ := h.commandFor(c.model, c.wanted)
		require.Equal(t, c.runtime, command.Name, c)
	}
}

func TestBuiltInRuntimes(t *testing.T) {
	t.Parallel()
	h := &host{
		commands: []RuntimeCommand{{Name: "testcard", Models: []string{"testcard"}}, {Name: "command", BuiltIn: true, Models: []string{"video.stitch"}}},
		log:      slog.New(slog.DiscardHandler),
		launch: func(_ context.Context, c RuntimeCommand) (process, error) {
			require.Equal(t, "testcard", c.Name, "a built-in runtime is known without a start")
			return offering{newModel(), []string{"testcard"}}, nil
		},
	}

	models, err := h.survey(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, []string{"testcard", "video.stitch"}, models)

	models, err = h.survey(t.Context(), []string{"testcard", "own", "ltx"})
	require.NoError(t, err)
	require.Equal(t, []string{"ltx", "own", "testcard"}, models)
	for _, c := range []struct{ model, wanted, runtime string }{
		{"testcard", "testcard", "testcard"}, {"own", "command", "command"}, {"ltx", "diffusers", ""}, {"ltx", "", ""},
	} {
		command, _ := h.commandFor(c.model, c.wanted)
		require.Equal(t, c.runtime, command.Name, c)
	}
	_, err = h.get(t.Context(), runtime.Model{Name: "ltx"}, "diffusers", nil)
	require.ErrorContains(t, err, "start its agent with --runtime 'diffusers=…'")
}
