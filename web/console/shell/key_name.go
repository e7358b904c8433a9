package shell

import (
	"context"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
)

// KeyNames are the names of keys that did something, by id.
type KeyNames map[models.KeyID]string

// KeyNames reads the names of those that are ids of keys. The others are names already: of members, and
// of programs.
func (c *Shell) KeyNames(ctx context.Context, p jobs.Principal, by ...string) (KeyNames, error) {
	var ids []models.KeyID
	for _, id := range by {
		if models.KeyID(id).Valid() {
			ids = append(ids, models.KeyID(id))
		}
	}
	if len(ids) == 0 {
		return KeyNames{}, nil
	}
	return c.Reads.Directory.KeyNames(ctx, p, ids)
}
