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
	JobKind: {"jobs", true}, workerKind: {"workers", false}, accountKind: {"accounts", false}, poolKind: {"pools", false},
	keyKind:        {"api_keys", true},
	deadLetterKind: {"dead_letters", false}, bulkKind: {"bulk_operations", true}, memberKind: {"members", true},
	alertKind: {"alerts", false}, silenceKind: {"alert_silences", false},
	workflowKind:        {"workflows", true},
	webhookEndpointKind: {"webhook_endpoints", true}, webhookDeliveryKind: {"webhook_deliveries", true},
}

// FindIDs returns the ids of a kind such as "job" between two UUIDs, in order, at most limit, and
// only those of an account unless it is "". whole reports whether all of them were read: it is false
// only for an account with very many rows of its own that shares the range with very many of others.
// A kind without a look-up, or without owners for an account, has none.
func FindIDs(ctx context.Context, db bun.IDB, kind, from, to string, account AccountID, limit int) (ids []string, whole bool, err error) {
	in, known := idTables[kind]
	if !known || account != "" && !in.owned {
		return nil, true, nil
	}
	table := bun.Ident(in.table)
	var found struct {
		Scanned int
		IDs     []string `bun:"ids,array"`
	}
	if account == "" {
		err = db.NewRaw(`SELECT ARRAY(SELECT id FROM ? WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?)::text[] AS ids`,
			table, from, to, limit).Scan(ctx, &found)
		return kindOf(kind, found.IDs), true, err
	}
	err = db.NewRaw(`
		WITH near AS (
			SELECT id, account_id FROM ? WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?)
		SELECT (SELECT count(*) FROM near) AS scanned,
			ARRAY(SELECT id FROM near WHERE account_id = ? ORDER BY id LIMIT ?)::text[] AS ids`,
		table, from, to, idScan, account, limit).Scan(ctx, &found)
	if err != nil || found.Scanned < idScan {
		return kindOf(kind, found.IDs), true, err
	}
	// The rows of others fill the range, so look through the account's own.
	err = db.NewRaw(`
		WITH own AS MATERIALIZED (SELECT id FROM ? WHERE account_id = ? LIMIT ?)
		SELECT (SELECT count(*) FROM own) AS scanned,
			ARRAY(SELECT id FROM own WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?)::text[] AS ids`,
		table, account, idScan, from, to, limit).Scan(ctx, &found)
	return kindOf(kind, found.IDs), found.Scanned < idScan, err
}

// kindOf returns ids of a kind as callers write them.
func kindOf(kind string, uuids []string) (ids []string) {
	for _, id := range uuids {
		ids = append(ids, kind+"_"+id)
	}
	return ids
}
