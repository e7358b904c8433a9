package videos

import (
	"net/http"

	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/web/door"
)

// entry is a model as clients list it.
type entry struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

func asEntry(name string) entry { return entry{ID: name, Object: "model", OwnedBy: "reelay"} }

// known are the models that the caller may submit.
func (a *api) known(c *call) *catalogue.Snapshot {
	return a.Videos.Submitter.Catalogue.Current().For(c.caller.Scope())
}

func (a *api) listModels(_ http.ResponseWriter, c *call) (any, error) {
	data := []entry{}
	for _, name := range a.Models.names(a.known(c)) {
		data = append(data, asEntry(name))
	}
	return map[string]any{"object": "list", "data": data}, nil
}

func (a *api) model(c *call, name string) (any, error) {
	if _, _, err := a.Models.find(a.known(c), name); err != nil {
		return nil, missing("model_not_found", "The model '%s' does not exist here.", door.Clip(name))
	}
	return asEntry(name), nil
}
