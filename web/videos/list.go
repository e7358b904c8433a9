package videos

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/features/video"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/door"
)

const (
	defaultLimit = 20
	maxLimit     = 100
)

// listing is one page of videos.
type listing struct {
	Object  string  `json:"object"`
	Data    []view  `json:"data"`
	FirstID *string `json:"first_id"`
	LastID  *string `json:"last_id"`
	HasMore bool    `json:"has_more"`
}

func (a *api) list(_ http.ResponseWriter, c *call) (any, error) {
	of, err := readPage(c.URL.Query())
	if err != nil {
		return nil, err
	}
	ctx, read, err := a.Shares.Admit(c.Context(), c.caller, query.PagePrice(of.Limit))
	if err != nil {
		return nil, err
	}
	defer read.End()
	found, err := a.Videos.List(ctx, c.caller, of)
	if err != nil {
		return nil, orNoVideo(err, models.VideoID(of.After))
	}
	answer := listing{Object: "list", Data: []view{}, HasMore: found.More}
	for _, v := range found.Items {
		answer.Data = append(answer.Data, a.view(v))
	}
	if n := len(answer.Data); n > 0 {
		answer.FirstID, answer.LastID = &answer.Data[0].ID, &answer.Data[n-1].ID
	}
	return answer, nil
}

func readPage(q url.Values) (video.PageRequest, error) {
	of := video.PageRequest{Limit: defaultLimit}
	if limit := q.Get("limit"); limit != "" {
		n, err := strconv.Atoi(limit)
		if err != nil || n < 0 || n > maxLimit {
			return of, invalid("invalid_value", "limit", "Invalid 'limit': it must be an integer from 0 to %d.", maxLimit)
		}
		of.Limit = n
	}
	switch order := q.Get("order"); order {
	case "", "desc":
	case "asc":
		of.OldestFirst = true
	default:
		return of, invalid("invalid_value", "order", "Invalid value: '%s'. Supported values are: 'asc' and 'desc'.", door.Clip(order))
	}
	if after := q.Get("after"); after != "" {
		id, ok := models.ParseVideoID(after)
		if !ok {
			return of, invalid("invalid_value", "after", "Invalid 'after': '%s' is no video id.", door.Clip(after))
		}
		of.After = id
	}
	return of, nil
}

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
