package console

import (
	"context"
	"regexp"

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

var keyInText = regexp.MustCompile(`"(key_[0-9a-f-]{36})"`)

// readEventKeys adds the names of the keys that a job's events mention.
func (c *console) readEventKeys(ctx context.Context, p jobs.Principal, v *jobView) error {
	var ids []string
	for _, e := range v.Events {
		for _, found := range keyInText.FindAllSubmatch(e.Payload, -1) {
			if id := string(found[1]); v.Keys[models.KeyID(id)] == "" {
				ids = append(ids, id)
			}
		}
	}
	names, err := c.keyNames(ctx, p, ids...)
	if len(names) == 0 {
		return err
	}
	// A view that is shown keeps its own map.
	for id, name := range v.Keys {
		names[id] = name
	}
	v.Keys = names
	return nil
}
