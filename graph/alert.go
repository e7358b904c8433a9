package graph

import (
	"cmp"
	"context"

	"github.com/reelay/reelay/models"
)

// actorName returns who did something: the name of a key, or who it was that had none, such as a member or Reelay itself.
// All columns that can have either are read by it.
func actorName(ctx context.Context, by string) (*string, error) {
	if by == "" {
		return nil, nil
	}
	if id := models.KeyID(by); id.Valid() {
		name, err := load(ctx).KeyNames.Load(ctx, id)
		return new(cmp.Or(name, by)), err
	}
	return &by, nil
}

// keyName returns the name of a key, or nil if there is none.
func keyName(ctx context.Context, id models.KeyID) (*string, error) {
	if id == "" {
		return nil, nil
	}
	name, err := load(ctx).KeyNames.Load(ctx, id)
	return &name, err
}
