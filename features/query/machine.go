package query

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
)

// Machines lists the machines of the ledger, those that were asked for last first. PoolID is the id of a
// pool, also of a deleted one, or the name of a pool. It is for OPERATOR and VIEWER. It returns
// INVALID_INPUT for an unknown state and NOT_FOUND for an unknown pool.
func (r *Fleet) Machines(ctx context.Context, p jobs.Principal, f capacity.MachineFilter, of paging.Request) (
	*paging.Page[*capacity.BilledMachine], error) {
	if err := p.RequireViewer(); err != nil {
		return nil, err
	}
	for _, state := range f.States {
		if !slices.Contains(capacity.MachineStates, state) {
			return nil, apierror.Invalid("filter.states", "There is no such state of a machine.")
		}
	}
	if !text.Valid(f.InstanceID, 0, text.MaxName) {
		return nil, apierror.Invalid("filter.instanceId", "instanceId may have %d printable characters.", text.MaxName)
	}
	if !f.PaidFrom.IsZero() && !f.PaidUntil.IsZero() && !f.PaidUntil.After(f.PaidFrom) {
		return nil, apierror.Invalid("filter.paidUntil", "paidUntil must be after paidFrom.")
	}
	all := paging.ListOf(paging.MachineKind, f)
	mark, err := all.Begin(of)
	if err != nil {
		return nil, err
	}
	after, err := readMachineMark(mark)
	if err != nil {
		return nil, err
	}
	if f.PoolID, err = r.poolOf(ctx, f.PoolID); err != nil {
		return nil, err
	}
	found, err := capacity.ListBilledMachines(ctx, r.db, f, after, of.First+1)
	if err != nil {
		return nil, fmt.Errorf("list machines: %w", err)
	}
	return paging.NewPage(all, found, of.First, machineMark), nil
}

// poolOf returns the id of a pool of which the id or the name is given, or NOT_FOUND. "" stays.
func (r *Fleet) poolOf(ctx context.Context, given models.PoolID) (models.PoolID, error) {
	if given == "" {
		return "", nil
	}
	if !given.Valid() {
		if !text.Valid(string(given), 1, text.MaxName) {
			return "", apierror.NotFound("pool")
		}
		id, err := capacity.FindPoolID(ctx, r.db, string(given))
		if errors.Is(err, sql.ErrNoRows) {
			return "", apierror.NotFound("pool")
		}
		return id, apierror.Wrap(err, "find the pool %s", given)
	}
	found, err := capacity.GetPools(ctx, r.db, []models.PoolID{given})
	if err == nil && len(found) == 0 {
		return "", apierror.NotFound("pool")
	}
	return given, apierror.Wrap(err, "read the pool %s", given)
}

// A mark in the list of machines is when the machine was asked for, in microseconds, and its id.
func machineMark(m *capacity.BilledMachine) string {
	return strconv.FormatInt(m.AskedAt.UnixMicro(), 10) + "-" + strconv.FormatInt(m.ID, 10)
}

func readMachineMark(mark string) (after capacity.MachineMark, err error) {
	if mark == "" {
		return after, nil
	}
	at, id, _ := strings.Cut(mark, "-")
	micros, err := strconv.ParseInt(at, 10, 64)
	if err == nil {
		after.ID, err = strconv.ParseInt(id, 10, 64)
	}
	after.AskedAt = time.UnixMicro(micros)
	if err != nil || micros < 0 || after.ID < 0 || after.AskedAt.Year() > 9999 {
		return after, paging.ErrCursor
	}
	return after, nil
}
