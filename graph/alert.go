package graph

import (
	"context"

	"github.com/reelay/reelay/models"
)

// keyName returns the name of a key, or nil if there is none.
func keyName(ctx context.Context, id models.KeyID) (*string, error) {
	if id == "" {
		return nil, nil
	}
	name, err := load(ctx).KeyNames.Load(ctx, id)
	return &name, err
}
