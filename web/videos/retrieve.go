package videos

import (
	"net/http"

	"github.com/reelay/reelay/models"
)

func (a *api) retrieve(w http.ResponseWriter, c *call, id models.JobID) (any, error) {
	v, err := a.Videos.Get(c.Context(), c.caller, id)
	if err != nil {
		return nil, err
	}
	return a.show(w, v), nil
}

func (a *api) delete(_ http.ResponseWriter, c *call, id models.JobID) (any, error) {
	if err := a.Videos.Delete(c.Context(), c.caller, id); err != nil {
		return nil, err
	}
	return deleted{ID: models.VideoID(id), Object: "video.deleted", Deleted: true}, nil
}

type deleted struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Deleted bool   `json:"deleted"`
}
