package models

import (
	"context"

	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// NamesOf returns the names by which people know rows, by id: of accounts, keys, pools, workers (the
// machine), schedules and workflows the name, of members the e-mail address. Ids of other kinds, and
// unknown ones, are left out.
func NamesOf(ctx context.Context, db bun.IDB, ids []string) (map[string]string, error) {
	byKind := map[string][]string{}
	for _, id := range ids {
		byKind[IDKind(id)] = append(byKind[IDKind(id)], id)
	}
	names := map[string]string{}
	for _, in := range []struct{ kind, table, name string }{
		{accountKind, "accounts", "name"}, {keyKind, "api_keys", "name"}, {memberKind, "members", "email"}, {poolKind, "pools", "name"},
		{workerKind, "workers", "provider_instance_id"}, {scheduleKind, "schedules", "name"}, {workflowKind, "workflows", "name"},
	} {
		if len(byKind[in.kind]) == 0 {
			continue
		}
		var rows []struct{ ID, Name string }
		err := db.NewRaw("SELECT ? || '_' || id AS id, ? AS name FROM ? WHERE id = ANY (?::uuid[])",
			in.kind, bun.Ident(in.name), bun.Ident(in.table), postgres.UUIDArray(byKind[in.kind])).Scan(ctx, &rows)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			names[row.ID] = row.Name
		}
	}
	return names, nil
}
