package lease

import (
	"testing"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/fairqueue"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestPrefer(t *testing.T) {
	t.Parallel()

	worker := &models.Worker{Offer: models.Offer{Region: "eu"}, WarmModels: []string{"warm"}}
	head := func(id, model, wish string, at float64) jobs.ReadyJob {
		return jobs.ReadyJob{ID: models.JobID(id), Queue: models.Queue{Model: model}, PreferredRegion: wish, VirtualTime: at}
	}
	for name, c := range map[string]struct {
		heads    []jobs.ReadyJob
		expected []models.JobID
	}{
		"warm and of its region, warm, of its region, the head": {
			[]jobs.ReadyJob{head("head", "cold", "", 0), head("region", "cold", "eu", 1), head("warm", "warm", "us", 2),
				head("both", "warm", "eu", 3)},
			[]models.JobID{"both", "warm", "region", "head"},
		},
		"the order among equals": {
			[]jobs.ReadyJob{head("1", "warm", "", 0), head("2", "warm", "us", 1), head("3", "warm", "", 2)},
			[]models.JobID{"1", "2", "3"},
		},
		"nobody gets ahead by more than the window": {
			[]jobs.ReadyJob{head("head", "cold", "", 10), head("within", "warm", "", 10+fairqueue.WindowTime),
				head("beyond", "warm", "eu", 11+fairqueue.WindowTime)},
			[]models.JobID{"within", "head", "beyond"},
		},
	} {
		var order []models.JobID
		for _, h := range prefer(c.heads, worker) {
			order = append(order, h.ID)
		}
		require.Equal(t, c.expected, order, name)
	}
}

func TestRank(t *testing.T) {
	t.Parallel()

	sizes := &catalogue.Model{GPUTypes: []string{"L4", "A100", "H100"}}
	anything := &catalogue.Model{GPUTypes: []string{"any"}}

	require.Equal(t, 0, sizes.Rank("L4"))
	require.Equal(t, 2, sizes.Rank("H100"))
	require.Equal(t, 2, sizes.Rank("any"))
	require.Equal(t, 0, anything.Rank("H100"))
	for gpuType, runs := range map[string]bool{"L4": true, "h100": true, "any": true, "T4": false, "Commodore 64": false, "none": false,
		"": false} {
		require.Equal(t, runs, sizes.RunsOn(gpuType), gpuType)
		require.True(t, anything.RunsOn(gpuType), gpuType)
		require.True(t, (&catalogue.Model{}).RunsOn(gpuType), gpuType)
	}
}
