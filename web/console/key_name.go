package console

import (
	"context"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
)

// keyNames are the names of keys that did something, by id.
type keyNames map[models.KeyID]string

// keyNames reads the names of those that are ids of keys. The others are names already: of members, and
// of programs.
func (c *console) keyNames(ctx context.Context, p jobs.Principal, by ...string) (keyNames, error) {
	var ids []models.KeyID
	for _, id := range by {
		if models.KeyID(id).Valid() {
			ids = append(ids, models.KeyID(id))
		}
	}
	if len(ids) == 0 {
		return keyNames{}, nil
	}
	return c.Reader.KeyNames(ctx, p, ids)
}
