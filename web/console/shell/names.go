package shell

import (
	"context"

	"github.com/reelay/reelay/models"
)

// AccountNames reads the names of accounts.
func (c *Shell) AccountNames(ctx context.Context, ids []models.AccountID) (map[models.AccountID]string, error) {
	names := map[models.AccountID]string{}
	if len(ids) == 0 {
		return names, nil
	}
	accounts, err := c.Reads.Directory.Accounts(ctx, ids)
	for _, a := range accounts {
		names[a.ID] = a.Name
	}
	return names, err
}
