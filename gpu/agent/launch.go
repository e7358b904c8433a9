package agent

import (
	"context"
	"os"
	"slices"
	"strings"

	"github.com/reelay/reelay/gpu/runtime"
)

// launch starts a runtime without the agent's own settings in its environment: a
// model needs no API key.
func launch(ctx context.Context, c RuntimeCommand) (process, error) {
	environment := slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "REELAY_")
	})
	p, err := runtime.Launch(ctx, runtime.Config{Command: c.Command, Env: environment})
	if err != nil {
		return nil, err
	}
	return p, nil
}
