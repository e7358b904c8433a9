package query

import (
	"context"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/models"
)

// anOperator is how a key is called to those whom its name is not for.
const anOperator = "an operator"

// KeyNames returns what keys are called, for what tells who did something: by
// their names, but to clients those of other accounts just as an operator.
func (r *Reader) KeyNames(ctx context.Context, p jobs.Principal, ids []models.KeyID) (map[models.KeyID]string, error) {
	keys, err := models.GetAPIKeys(ctx, r.DB, ids)
	if err != nil {
		return nil, apierror.Wrap(err, "read the names of keys")
	}
	names := make(map[models.KeyID]string, len(keys))
	for _, key := range keys {
		names[key.ID] = anOperator
		if p.Sees(key.AccountID) {
			names[key.ID] = key.Name
		}
	}
	return names, nil
}
