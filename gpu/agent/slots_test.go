package agent

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLayout(t *testing.T) {
	for name, c := range map[string]struct {
		workers, gpus int
		cuda, rocr    string
		devices       [][]string
		fails         string
	}{
		"one worker has the machine as it is": {1, 1, "4,5", "", [][]string{nil}, ""},
		"two workers":                         {2, 2, "", "", [][]string{{"0", "1"}, {"2", "3"}}, ""},
		"what the agent sees":                 {2, 1, "GPU-a, GPU-b", "", [][]string{{"GPU-a"}, {"GPU-b"}}, ""},
		"AMD":                                 {2, 1, "", "6,7", [][]string{{"6"}, {"7"}}, ""},
		"too few GPUs": {2, 2, "0,1,2", "", nil,
			"CUDA_VISIBLE_DEVICES names 3 GPUs, but 2 workers with 2 GPUs each need 4"},
		"no worker":     {0, 1, "", "", nil, "--workers is 0: it must be from 1 to 64"},
		"too many GPUs": {1, 65, "", "", nil, "--gpus-per-worker is 65"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("CUDA_VISIBLE_DEVICES", c.cuda)
			t.Setenv("ROCR_VISIBLE_DEVICES", c.rocr)

			l, err := newLayout(c.workers, c.gpus)

			if c.fails != "" {
				require.ErrorContains(t, err, c.fails)
				return
			}
			require.NoError(t, err)
			for slot, devices := range c.devices {
				require.Equal(t, devices, l.devices(slot))
			}
		})
	}
}
