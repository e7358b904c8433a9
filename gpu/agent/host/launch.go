package host

import (
	"context"
	"os"
	"slices"
	"strings"

	"github.com/reelay/reelay/gpu/runtime"
)

// VisibleDevices are the variables that say which GPUs a program sees: NVIDIA's and AMD's.
var VisibleDevices = []string{"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"}

// environment returns the variables of a runtime on some devices: without the agent's own settings,
// since a model needs no API key.
func environment(all, devices []string) []string {
	hidden := func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return strings.HasPrefix(name, "REELAY_") || devices != nil && slices.Contains(VisibleDevices, name)
	}
	kept := slices.DeleteFunc(slices.Clone(all), hidden)
	if devices != nil {
		for _, variable := range VisibleDevices {
			kept = append(kept, variable+"="+strings.Join(devices, ","))
		}
	}
	return kept
}

// LaunchOn returns the launcher of a worker that has these GPUs, or all if devices is nil.
func LaunchOn(devices []string) Launcher {
	return func(ctx context.Context, c Command) (Process, error) {
		p, err := runtime.Launch(ctx, runtime.Config{Command: c.Command, Env: append(environment(os.Environ(), devices), c.Env...)})
		if err != nil {
			return nil, err
		}
		return p, nil
	}
}
