package query

import (
	"context"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
)

// anOperator replaces the name of an operator's key for clients.
const anOperator = "an operator"

// KeyNames returns the names of keys that did something. A client sees keys of other accounts
// only as "an operator".
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
