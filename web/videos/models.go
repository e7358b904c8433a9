package videos

import (
	"net/http"

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

func (a *api) listModels(http.ResponseWriter, *call) (any, error) {
	data := []entry{}
	for _, name := range a.Models.names(a.Videos.Submitter.Catalogue.Current()) {
		data = append(data, asEntry(name))
	}
	return map[string]any{"object": "list", "data": data}, nil
}

func (a *api) model(name string) (any, error) {
	if _, _, err := a.Models.find(a.Videos.Submitter.Catalogue.Current(), name); err != nil {
		return nil, missing("model_not_found", "The model '%s' does not exist here.", door.Clip(name))
	}
	return asEntry(name), nil
}
