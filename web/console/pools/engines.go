package pools

import (
	"fmt"
	"net/http"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/web/console/address"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/reelay/reelay/web/ui"
)

// holdEngine takes the engine of the form out of service.
func (c *controller) holdEngine(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	return c.changeEngine(w, r, func(url string) error { return c.Engines.Hold(r.Context(), p, poolID(r), url) },
		"Held the engine %s: it gets no new job.")
}

// resumeEngine puts the engine of the form back into service.
func (c *controller) resumeEngine(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	return c.changeEngine(w, r, func(url string) error { return c.Engines.Resume(r.Context(), p, poolID(r), url) },
		"Resumed the engine %s.")
}

func (c *controller) changeEngine(w http.ResponseWriter, r *http.Request, change func(url string) error, said string) error {
	if err := shell.ReadForm(r); err != nil {
		return err
	}
	url := r.PostForm.Get("url")
	if err := change(url); err != nil {
		return err
	}
	return c.Done(w, r, string(address.Pool(poolID(r))), fmt.Sprintf(said, ui.Clip(ui.Upright(url), 120)))
}

// gpu is what the engine tells of its GPU, in a few words.
func gpu(e *query.PoolEngine) string {
	says := e.GPUName
	if e.GPUMemoryBytes != nil {
		memory := ui.Bytes(*e.GPUMemoryBytes)
		if e.GPUMemoryFreeBytes != nil {
			memory = ui.Bytes(*e.GPUMemoryFreeBytes) + " of " + memory + " free"
		}
		says += " " + memory
	}
	return says
}
