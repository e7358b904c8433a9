package estimate

import (
	"testing"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/stretchr/testify/require"
)

func TestRenderTimes(t *testing.T) {
	t.Parallel()

	known := func(class, gpuType string, ratio float64, samples int64) *backlog.RenderTime {
		return &backlog.RenderTime{Kind: backlog.Kind{Model: "m", TimeClass: class}, GPUType: gpuType, Ratio: ratio, Samples: samples}
	}
	times := NewRenderTimes([]*backlog.RenderTime{
		known("8,480p", "A", 2, 10), known("32,480p", "A", 4, 30), known("32,720p", "A", 8, 10), known("8,480p", "B", 6, 30),
	})

	for _, c := range []struct {
		class, gpuType, because string
		ratio                   float64
	}{
		{"8,480p", "A", "its own", 2},
		{"16,480p", "A", "8 and 32 are as near, weighted by their samples", (2*10 + 4*30) / 40.},
		{"64,480p", "A", "32 is the nearest number", 4},
		{"0,480p", "A", "8 is the nearest number", 2},
		{"64,720p", "A", "the same resolution is nearer", 8},
		{"32,1080p", "A", "any other resolution is as far", (4*30 + 8*10) / 40.},
		{"32,480p", "B", "the GPU type counts more than the class", 6},
		{"8,480p", "C", "the mean over GPU types", (2*10 + 6*30) / 40.},
		{"8", "A", "other parameters: the mean of the model", (2*10 + 4*30 + 8*10) / 50.},
		{"", "A", "no class: the mean of the model", (2*10 + 4*30 + 8*10) / 50.},
		{"", "", "the mean of the model on all", (2*10 + 4*30 + 8*10 + 6*30) / 80.},
	} {
		require.InDelta(t, c.ratio, times.Ratio(backlog.Kind{Model: "m", TimeClass: c.class}, c.gpuType), 1e-9, c.because)
	}
	require.InDelta(t, 1, times.Ratio(backlog.Kind{Model: "other", TimeClass: "8,480p"}, "A"), 0)
	require.InDelta(t, 1, RenderTimes{}.Ratio(backlog.Kind{Model: "m"}, "A"), 0)
	require.InDelta(t, 30, times.Seconds(&models.Job{Model: "m", TimeClass: "8,480p", EstimatedGPUSeconds: 6}), 1e-9)
}
