package hosted

import (
	"fmt"
	"io"
	"os"

	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/gpu/runtimes/remote"
	"github.com/reelay/reelay/internal/hostedengine"
	"github.com/reelay/reelay/internal/provider"
)

// encode makes the request, with the files of the job.
func encode(a *provider.Adapter, settings *hostedengine.Settings, task provider.Task, job *remote.Job) (*provider.Request, error) {
	files := map[string]provider.File{}
	for param, path := range job.Inputs {
		if settings.Fields[param] == "" || job.Params[param] == nil {
			continue
		}
		file, err := read(path)
		if err != nil {
			return nil, err
		}
		files[param] = file
	}
	return hostedengine.Request(a, settings, task, job.Params, files), nil
}

// Asked implements remote.Biller.
func (e *Engine) Asked(job *remote.Job) (*provider.Asked, error) {
	asked, err := hostedengine.Ask(e.adapter, job.Settings, job.Model, job.Params)
	if err != nil {
		return nil, runtime.Failf(runtime.InvalidInput, "%s does not take the job: %v.", e.adapter.Title, err)
	}
	return &asked, nil
}

func read(path string) (provider.File, error) {
	file, err := os.Open(path)
	if err != nil {
		return provider.File{}, fmt.Errorf("read a file of the job: %w", err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFiles+1))
	if err != nil {
		return provider.File{}, fmt.Errorf("read a file of the job: %w", err)
	}
	if len(data) > maxFiles {
		return provider.File{}, runtime.Failf(runtime.InvalidInput, "A file of the job has over %d MB, which providers do not take.", maxFiles>>20)
	}
	return provider.FileOf(path, data), nil
}
