package models

import (
	"context"

	"github.com/uptrace/bun"
)

// idScan is how many ids a look-up by prefix reads at most.
const idScan = 20_000

// idTables are the tables whose ids can be looked up by a prefix.
var idTables = map[string]struct {
	table string
	owned bool // it has the column account_id
}{
	jobKind: {"jobs", true}, workerKind: {"workers", false}, accountKind: {"accounts", false}, poolKind: {"pools", false}, keyKind: {"api_keys", true},
	deadLetterKind: {"dead_letters", false}, bulkKind: {"bulk_operations", true}, memberKind: {"members", true},
	alertKind: {"alerts", false}, silenceKind: {"alert_silences", false},
	workflowKind:        {"workflows", true},
	webhookEndpointKind: {"webhook_endpoints", true}, webhookDeliveryKind: {"webhook_deliveries", true},
}

// FindIDs returns the ids of a kind such as "job" between two UUIDs, in order, at most limit, and
// only those of an account unless it is "". whole reports whether all ids between the two were
// read: an account that shares the range with very many ids of others may miss some.
// A kind without a look-up, or without owners for an account, has none.
func FindIDs(ctx context.Context, db bun.IDB, kind, from, to string, account AccountID, limit int) (ids []string, whole bool, err error) {
	in, known := idTables[kind]
	if !known || account != "" && !in.owned {
		return nil, true, nil
	}
	var found struct {
		Scanned int
		IDs     []string `bun:"ids,array"`
	}
	columns, owner := "id", "true"
	args := []any{bun.Ident(in.table), from, to, idScan}
	if account != "" {
		columns, owner = "id, account_id", "account_id = ?"
		args = append(args, account)
	}
	err = db.NewRaw(`
		WITH near AS (
			SELECT `+columns+` FROM ? WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?)
		SELECT (SELECT count(*) FROM near) AS scanned,
			ARRAY(SELECT id FROM near WHERE `+owner+` ORDER BY id LIMIT ?)::text[] AS ids`, append(args, limit)...).Scan(ctx, &found)
	if err != nil {
		return nil, false, err
	}
	for _, id := range found.IDs {
		ids = append(ids, kind+"_"+id)
	}
	return ids, account == "" || found.Scanned < idScan, nil
}
