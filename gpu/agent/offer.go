package agent

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/agent/host"
	"github.com/reelay/reelay/internal/pause"
	"github.com/reelay/reelay/internal/program"
)

// runnable returns the models without those of --models whose program this host lacks: such a job
// would fail here, and nothing would say that no worker can run it. It returns an error if none is
// left. It retries for as long as the control plane is unreachable.
func (a *Agent) runnable(ctx context.Context, models []string) ([]string, error) {
	if len(a.config.Models) == 0 || !slices.ContainsFunc(a.config.Runtimes, func(r host.Command) bool { return r.Name == program.Runtime }) {
		return models, nil // the models are built in, see builtInRuntimes, or the runtimes know their own
	}
	programs, err := a.modelPrograms(ctx)
	if err != nil {
		return nil, err
	}
	var missing []string
	for _, p := range programs {
		if command, _ := a.runtimes.CommandFor(p.Model, program.Runtime); command.Name != program.Runtime || !slices.Contains(models, p.Model) {
			continue
		}
		if _, err := exec.LookPath(p.Program); err != nil {
			says := fmt.Sprintf("%s needs the program %s, which this host cannot run (%v)", p.Model, p.Program, err)
			if p.Install != nil {
				says += ": " + *p.Install
			}
			a.log.Warn("a model is not offered", "model", p.Model, "reason", says)
			missing = append(missing, says)
			models = slices.DeleteFunc(models, func(m string) bool { return m == p.Model })
		}
	}
	if len(models) == 0 {
		return nil, fmt.Errorf("this host can run none of the models of --models: %s", strings.Join(missing, "; "))
	}
	return models, nil
}

func (a *Agent) modelPrograms(ctx context.Context) ([]client.ModelProgram, error) {
	for failures := 1; ; failures++ {
		limited, cancel := context.WithTimeout(ctx, callTimeout)
		programs, err := a.api.ModelPrograms(limited)
		cancel()
		switch {
		case err == nil:
			return programs, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case !theirFault(err):
			// The registration explains a bad key. An older API does not know the question.
			a.log.Debug("the programs of the models are unknown", "error", err)
			return nil, nil
		}
		if err := pause.For(ctx, delay(err, failures)); err != nil {
			return nil, err
		}
	}
}
