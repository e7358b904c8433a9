package host

import (
	"context"
	"log/slog"
	"testing"

	"github.com/reelay/reelay/gpu/runtime"
	"github.com/stretchr/testify/require"
)

// offering is a runtime that announces these models.
type offering struct {
	Process
	models []string
}

func (o offering) Announced() runtime.Ready {
	return runtime.Ready{Protocol: runtime.ProtocolVersion, Models: runtime.Offers(o.models...)}
}

func (o offering) Kill()        {}
func (o offering) Tail() string { return "" }

func TestHost(t *testing.T) {
	t.Parallel()
	offers := map[string][]string{"diffusers": nil, "gradient": {"gradient"}}
	h := &Host{
		commands: []Command{{Name: "diffusers"}, {Name: "gradient"}}, log: slog.New(slog.DiscardHandler),
		launch: func(_ context.Context, c Command) (Process, error) {
			return offering{nil, offers[c.Name]}, nil
		},
	}

	_, err := h.Survey(t.Context(), nil)
	require.ErrorContains(t, err, "name the models to serve with --models")
	models, err := h.Survey(t.Context(), []string{"tiny", "gradient"})
	require.NoError(t, err)
	require.Equal(t, []string{"gradient", "tiny"}, models)

	for _, c := range []struct{ model, wanted, runtime string }{
		{"gradient", "gradient", "gradient"}, {"gradient", "", "diffusers"}, {"tiny", "diffusers", "diffusers"},
		{"tiny", "gradient", "diffusers"}, {"tiny", "other", "diffusers"}, {"other", "diffusers", ""},
	} {
		command, _ := h.CommandFor(c.model, c.wanted)
		require.Equal(t, c.runtime, command.Name, c)
	}
}

func TestBuiltInRuntimes(t *testing.T) {
	t.Parallel()
	h := &Host{
		commands: []Command{{Name: "testcard", Models: []string{"testcard"}}, {Name: "command", BuiltIn: true, Models: []string{"video.stitch"}}},
		log:      slog.New(slog.DiscardHandler),
		launch: func(_ context.Context, c Command) (Process, error) {
			require.Equal(t, "testcard", c.Name, "a built-in runtime is known without a start")
			return offering{nil, []string{"testcard"}}, nil
		},
	}

	models, err := h.Survey(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, []string{"testcard", "video.stitch"}, models)

	models, err = h.Survey(t.Context(), []string{"testcard", "own", "ltx"})
	require.NoError(t, err)
	require.Equal(t, []string{"ltx", "own", "testcard"}, models)
	for _, c := range []struct{ model, wanted, runtime string }{
		{"testcard", "testcard", "testcard"}, {"own", "command", "command"}, {"ltx", "diffusers", ""}, {"ltx", "", ""},
	} {
		command, _ := h.CommandFor(c.model, c.wanted)
		require.Equal(t, c.runtime, command.Name, c)
	}
	_, _, err = h.Get(t.Context(), runtime.Model{Name: "ltx"}, "diffusers", nil)
	require.ErrorContains(t, err, "start its agent with --runtime 'diffusers=…'")
}

func TestDiagnose(t *testing.T) {
	t.Parallel()

	for said, class := range map[string]runtime.FailureClass{
		"CUDA error: an illegal memory access was encountered":            runtime.ModelCrash,
		"cuDNN error: CUDNN_STATUS_EXECUTION_FAILED":                      runtime.ModelCrash,
		"NCCL error in: ProcessGroupNCCL.cpp":                             runtime.ModelCrash,
		"RuntimeError: device-side assert triggered":                      runtime.ModelCrash,
		"torch.cuda.OutOfMemoryError: CUDA out of memory":                 runtime.OutOfMemory,
		"the weights could not be downloaded: connection reset by a peer": runtime.Transient,
	} {
		require.Equal(t, class, Diagnose(runtime.Failf(runtime.Transient, "%s", said)).Class, said)
		require.Equal(t, runtime.InvalidInput, Diagnose(runtime.Failf(runtime.InvalidInput, "%s", said)).Class)
	}
}
