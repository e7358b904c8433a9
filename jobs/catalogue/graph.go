package catalogue

import (
	"encoding/json"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/comfy"
	"github.com/reelay/reelay/internal/engine"
	"github.com/reelay/reelay/internal/text"
)

// findGraphs prepares the check of graphs that jobs bring. Settings that are wrong are reported as
// such.
func (m *Model) findGraphs() {
	m.graphs = nil
	if m.Runtime != string(engine.ComfyUI) {
		return
	}
	if settings, err := comfy.ParseSettings(m.Settings, nil); err == nil {
		m.graphs = settings.Any
	}
}

// TakesGraphs reports whether a job of the model brings its graph in the parameter comfy.GraphParam.
func (m *Model) TakesGraphs() bool { return m.graphs != nil }

// checkGraph checks the graph that valid params bring, as the worker will again.
func (m *Model) checkGraph(params json.RawMessage) error {
	if m.graphs == nil {
		return nil
	}
	var given struct {
		Graph json.RawMessage `json:"graph"`
		Files []string        `json:"files"`
	}
	if err := json.Unmarshal(params, &given); err != nil || len(given.Graph) == 0 {
		return apierror.Invalid("params.graph", "params.graph is missing: give a graph in ComfyUI's API format.")
	}
	graph, err := comfy.ParseGraph(given.Graph)
	if err == nil {
		err = m.graphs.Check(graph, len(given.Files))
	}
	if err != nil {
		return apierror.Invalid("params.graph", "The graph is refused: %s.", text.Clip(text.Printable(err.Error()), 500))
	}
	return nil
}
