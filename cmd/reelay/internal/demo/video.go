package demo

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/progress"
	"github.com/reelay/reelay/gpu/runtimes/diffusers"
)

// demoVideo is what the demo renders: long enough for a preemption in the middle.
type demoVideo struct {
	model   string
	params  map[string]any
	seconds float64
	fps     int
	// up has the arguments of `reelay up` for the model.
	up []string
	// prepare makes what the model needs in the stack's folder, and returns variables of the
	// stack's environment.
	prepare func(ctx context.Context, d *progress.Display, folder string) ([]string, error)
}

// video returns the video of the model that was chosen.
func (o *demoOptions) video() (*demoVideo, error) {
	if o.provider != "" {
		return providerVideo(o.provider)
	}
	switch o.model {
	case "testcard":
		return &demoVideo{
			model: "testcard", seconds: 6, fps: 24,
			params:  map[string]any{"durationSeconds": 6, "fps": 24, "pace": 1.5, "resolution": "480p"},
			prepare: func(context.Context, *progress.Display, string) ([]string, error) { return nil, nil },
		}, nil
	case "tiny-ltx":
		return &demoVideo{
			model: "tiny-ltx", seconds: 41.0 / 24, fps: 24,
			params:  map[string]any{"durationSeconds": 41.0 / 24, "size": "256x128", "steps": 300},
			up:      []string{"--models", "tiny-ltx", "--runtime", "diffusers=" + o.python + " -m reelay_diffusers"},
			prepare: o.makeTiny,
		}, nil
	}
	return nil, fmt.Errorf("--model is %q: the demo renders with testcard or tiny-ltx", o.model)
}

// makeTiny writes tiny random weights of LTX-Video and a catalogue with their entry.
func (o *demoOptions) makeTiny(ctx context.Context, d *progress.Display, folder string) ([]string, error) {
	if strings.ContainsAny(o.python, " \t") {
		return nil, fmt.Errorf("--python is %q: it must be one program, without spaces in its path", o.python)
	}
	weights, err := filepath.Abs(filepath.Join(folder, "tiny-ltx"))
	if err != nil {
		return nil, err
	}
	d.Note("Making a tiny LTX-Video with random weights …")
	out, err := exec.CommandContext(ctx, o.python, "-m", "reelay_diffusers.tiny", weights, "--pipeline", "LTXPipeline").CombinedOutput()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return nil, fmt.Errorf("%s cannot make the weights: %w: %s\n"+
			"Install what it needs (torch, 3 GB): pip install ./gpu/runtimes/python ./gpu/runtimes/diffusers, "+
			"or run `go tool task demo -- --model tiny-ltx` in a clone", o.python, err, output.Clean(lines[len(lines)-1]))
	}
	catalogue := filepath.Join(filepath.Dir(weights), "models")
	if err := os.MkdirAll(catalogue, 0o755); err != nil {
		return nil, err
	}
	file := filepath.Join(catalogue, "models.yaml")
	if err := os.WriteFile(file, diffusers.TinyModels(weights), 0o644); err != nil {
		return nil, fmt.Errorf("write the entry of tiny-ltx: %w", err)
	}
	return []string{"REELAY_MODELS=" + catalogue}, nil
}
