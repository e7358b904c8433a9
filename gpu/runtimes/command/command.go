// Package command is a runtime that does a job with a program: ffmpeg, a script, any executable.
// The model's settings say how, see [program.Settings]. A program needs no library and no
// protocol: it gets arguments and files, and writes files.
package command

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/internal/program"
)

// Name is the name of this runtime in the catalogue.
const Name = program.Runtime

// Run serves an agent, one job at a time, until the agent sends shutdown or in
// ends. It returns an error if the agent breaks the protocol or the pipes fail.
func Run(ctx context.Context, in io.Reader, out io.Writer) error {
	return runtime.Serve(ctx, in, out, runtime.Ready{Runtime: "command 1"}, model{})
}

// model is the Handler. It keeps nothing between jobs.
type model struct{}

// Load does nothing: a program loads what it needs when it starts.
func (model) Load(context.Context, runtime.Model) error { return nil }

// Render runs the program and collects the files that it wrote.
func (model) Render(ctx context.Context, job *runtime.Job) (runtime.Result, error) {
	settings, problems := program.Parse(job.Settings)
	if len(problems) > 0 {
		return runtime.Result{}, runtime.Failf(runtime.InvalidInput, "The settings of the model %s are invalid: %s.", job.Model, problems[0].Text)
	}
	r, err := newRun(job, settings)
	if err != nil {
		return runtime.Result{}, err
	}
	if settings.TimeoutSeconds > 0 {
		limit := time.Duration(settings.TimeoutSeconds * float64(time.Second))
		timed, cancel := context.WithTimeoutCause(ctx, limit,
			runtime.Failf(runtime.Timeout, "The program %s ran longer than its limit of %s.", r.name, limit))
		defer cancel()
		ctx = timed
	}
	if err := r.do(ctx); err != nil {
		return runtime.Result{}, err
	}
	return r.result()
}

// run is one run of a program.
type run struct {
	job      *runtime.Job
	settings *program.Settings
	name     string // of the program, for people
	outputs  map[string]string
	command  *exec.Cmd
	reports  *reports
}

// newRun prepares the working directory and the command line.
func newRun(job *runtime.Job, settings *program.Settings) (*run, error) {
	r := &run{job: job, settings: settings, outputs: map[string]string{}}
	for name, file := range settings.Outputs {
		r.outputs[name] = filepath.Join(job.Workdir, file)
		// An earlier attempt may have left it.
		if err := os.RemoveAll(r.outputs[name]); err != nil {
			return nil, fmt.Errorf("clear the working directory: %w", err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	values := program.Values{
		Prompt: job.Prompt, Inputs: job.Inputs, Outputs: r.outputs, Workdir: job.Workdir,
		Job: filepath.Join(job.Workdir, "job.json"), Reelay: self, Lookup: os.LookupEnv,
	}
	if values.Params, err = r.describe(values.Job); err != nil {
		return nil, err
	}
	arguments, err := settings.Arguments(values)
	if err != nil {
		return nil, runtime.Failf(runtime.InvalidInput, "The program cannot be started: %v.", err)
	}
	variables, err := settings.Variables(values)
	if err != nil {
		return nil, runtime.Failf(runtime.ModelCrash, "The program cannot be started: %v.", err)
	}
	r.name = filepath.Base(arguments[0])
	path, err := exec.LookPath(arguments[0])
	if err != nil {
		return nil, r.missing(err)
	}
	r.command = exec.Command(path, arguments[1:]...)
	r.command.Dir = job.Workdir
	r.command.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + job.Workdir, "TMPDIR=" + job.Workdir}, variables...)
	return r, nil
}

// missing is TRANSIENT: the host lacks the program, and another may have it. The job does not crash
// its workers, so it must not end as POISON.
func (r *run) missing(err error) error {
	host, _ := os.Hostname()
	install := cmp.Or(r.settings.Install, "Install it, or name its path in the model's settings.")
	return runtime.Failf(runtime.Transient,
		"The program %s cannot be run on the host %s (%v). %s Or start that host's agent with --models that leave out %s.",
		r.name, host, err, install, r.job.Model)
}

// describe writes the job to a file that the program can read, and returns its parameters.
func (r *run) describe(path string) (map[string]any, error) {
	params := map[string]any{}
	decoder := json.NewDecoder(bytes.NewReader(r.job.Params))
	decoder.UseNumber()
	if err := decoder.Decode(&params); err != nil && err != io.EOF {
		return nil, runtime.Failf(runtime.InvalidInput, "The parameters are not a JSON object: %v.", err)
	}
	inputs := r.job.Inputs
	if inputs == nil {
		inputs = map[string]string{}
	}
	data, err := json.Marshal(program.Job{
		Job: r.job.Job, Model: r.job.Model, Type: r.job.Type, Prompt: r.job.Prompt,
		Params: params, Inputs: inputs, Outputs: r.outputs, Workdir: r.job.Workdir,
	})
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	return params, err
}

// result checks the files of the program.
func (r *run) result() (runtime.Result, error) {
	for name, path := range r.outputs {
		info, err := os.Lstat(path)
		if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
			return runtime.Result{}, r.failure(0, fmt.Sprintf("ended without writing the %s to %s", name, filepath.Base(path)))
		}
	}
	result := runtime.Result{Video: r.outputs["video"], Thumbnail: r.outputs["thumbnail"], Spritesheet: r.outputs["spritesheet"]}
	if path := r.outputs["output"]; path != "" {
		file, err := os.Open(path)
		if err != nil {
			return runtime.Result{}, err
		}
		defer file.Close()
		data, err := io.ReadAll(io.LimitReader(file, runtime.MaxOutput+1))
		if err != nil {
			return runtime.Result{}, err
		}
		if len(data) > runtime.MaxOutput {
			return runtime.Result{}, runtime.Failf(runtime.InvalidInput,
				"The program %s wrote an output of more than %d bytes: it must write less.", r.name, runtime.MaxOutput)
		}
		if !json.Valid(data) {
			return runtime.Result{}, runtime.Failf(runtime.InvalidInput,
				"The program %s wrote an output that is not JSON: it must write one JSON value to %s.", r.name, filepath.Base(path))
		}
		result.Output = data
	}
	return result, nil
}

// failure describes a failed run by the first rule that matches, by the program's own report of
// an error, or as MODEL_CRASH.
func (r *run) failure(status int, what string) error {
	lines := r.reports.lines()
	last := ""
	if len(lines) > 0 {
		last = lines[len(lines)-1]
	}
	failure := runtime.Failf(runtime.ModelCrash, "The program %s %s.", r.name, what)
	if last != "" {
		failure.Message = strings.TrimSuffix(failure.Message, ".") + ": " + clip(last, maxQuote)
	}
	if said := r.reports.failure; said != nil {
		failure = said
	}
	for _, rule := range r.settings.Errors {
		if rule.ExitCode != nil && *rule.ExitCode != status {
			continue
		}
		if pattern := rule.Pattern(); pattern != nil {
			found := ""
			for _, line := range lines {
				if pattern.MatchString(line) {
					found = line
				}
			}
			if found == "" {
				continue
			}
			failure.Message = fmt.Sprintf("The program %s %s: %s", r.name, what, clip(found, maxQuote))
		}
		failure.Class = runtime.FailureClass(rule.Class)
		failure.Message = cmp.Or(rule.Message, failure.Message)
		break
	}
	failure.Detail = strings.Join(lines, "\n")
	return failure
}

const maxQuote = 1000 // bytes of a line of the program in a message

func clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}
