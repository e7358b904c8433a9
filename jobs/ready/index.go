// Package ready is what Redis knows: the ready index, and news of jobs.
//
// Redis may lose all of it at any time. PostgreSQL decides every claim; what is
// here only makes the usual path quick, and is put back by the next sweep.
//
// All keys begin with "{prefix}:", so that on a Redis Cluster they share a slot:
//
//	epoch                      says that the index is there; gone, it is lost
//	models:LANE                set of the models that have a queue in the lane
//	queue:LANE:MODEL           sorted set by virtual time: "order:account:job", each
//	                           account's first job; those of equal time sort by order
//	heads:LANE:MODEL           hash of each account's member in that queue
//	jobs:LANE:ACCOUNT:MODEL    sorted set by order: the account's jobs
//
// and the channels are "wakes", with an Index's own mark and the name of a model,
// and "news:JOB".
package ready

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
)

var (
	//go:embed update.lua
	updateSource string
	//go:embed first.lua
	firstSource string
	//go:embed begin.lua
	beginSource string

	updateScript = redis.NewScript(updateSource)
	firstScript  = redis.NewScript(firstSource)
	beginScript  = redis.NewScript(beginSource)
)

// updateBatch is how many jobs one script handles: Redis does nothing else
// meanwhile, a few milliseconds.
const updateBatch = 200

// Index is the ready index in Redis.
type Index struct {
	client redis.UniversalClient
	prefix string // of all keys, with the colon
	self   string // known to no other process
}

var _ jobs.ReadyIndex = (*Index)(nil)

// New returns the index under that prefix. The client bounds what a Redis that
// does not answer costs each call: it shall have timeouts of about 200 ms for
// dialling, reading and writing, and retry once. What go-redis itself has to
// say goes to slog from now on.
func New(client redis.UniversalClient, prefix string) *Index {
	redis.SetLogger(redisLog{})
	return &Index{client: client, prefix: keyPrefix(prefix), self: rand.Text()}
}

func keyPrefix(prefix string) string { return "{" + prefix + "}:" }

// Add puts jobs in, or moves those that are there to their new order, and tells
// all processes of their models. It returns an error that is
// [jobs.ErrIndexLost] if the index is lost or Redis cannot be reached.
func (x *Index) Add(ctx context.Context, added ...jobs.ReadyJob) error {
	return x.update(ctx, "ZADD", added)
}

// Remove takes jobs out, those that are not there as well, and moves their
// accounts to their new virtual times. It returns an error that is
// [jobs.ErrIndexLost] if the index is lost or Redis cannot be reached.
func (x *Index) Remove(ctx context.Context, removed ...jobs.ReadyJob) error {
	return x.update(ctx, "ZREM", removed)
}

func (x *Index) update(ctx context.Context, verb string, changed []jobs.ReadyJob) error {
	for batch := range slices.Chunk(changed, updateBatch) {
		args := []any{x.prefix, verb, x.self}
		for _, j := range batch {
			args = append(args, string(j.Lane), j.Model, string(j.Account), string(j.ID), j.Order, j.VirtualTime)
		}
		there, err := updateScript.Run(ctx, x.client, []string{x.epoch()}, args...).Bool()
		if err != nil {
			return lost(err)
		}
		if !there {
			return jobs.ErrIndexLost
		}
	}
	return nil
}

// First returns at most n jobs for workers that run these models: lane by lane,
// the accounts of a lane by their virtual time, and of each its first job. It
// returns an error that is [jobs.ErrIndexLost] if the index is lost or Redis
// cannot be reached.
func (x *Index) First(ctx context.Context, names []string, n int) ([]jobs.ReadyJob, error) {
	if n <= 0 {
		return nil, nil
	}
	args := []any{x.prefix, n, len(models.Tiers)}
	for _, lane := range models.Tiers {
		args = append(args, string(lane))
	}
	for _, name := range names {
		args = append(args, name)
	}
	rows, err := firstScript.Run(ctx, x.client, []string{x.epoch()}, args...).StringSlice()
	if errors.Is(err, redis.Nil) {
		return nil, jobs.ErrIndexLost
	}
	if err != nil {
		return nil, lost(err)
	}
	heads, err := readHeads(rows)
	if err != nil {
		return nil, lost(err)
	}
	heads = best(heads)
	return heads[:min(n, len(heads))], nil
}

// readHeads reads what first.lua returns.
func readHeads(rows []string) ([]jobs.ReadyJob, error) {
	var heads []jobs.ReadyJob
	for row := range slices.Chunk(rows, 4) {
		head := strings.SplitN(row[2], ":", 3)
		if len(head) != 3 {
			return nil, fmt.Errorf("malformed head %q", row[2])
		}
		order, err := strconv.ParseInt(head[0], 10, 64)
		if err != nil {
			return nil, err
		}
		time, err := strconv.ParseFloat(row[3], 64)
		if err != nil {
			return nil, err
		}
		heads = append(heads, jobs.ReadyJob{
			Lane: models.Tier(row[0]), Model: row[1], Order: order, VirtualTime: time,
			Account: models.AccountID(head[1]), ID: models.JobID(head[2]),
		})
	}
	return heads, nil
}

// best sorts the heads of several queues as if they were one, and leaves of each
// account in each lane the first.
func best(heads []jobs.ReadyJob) []jobs.ReadyJob {
	slices.SortFunc(heads, func(a, b jobs.ReadyJob) int {
		return cmp.Or(
			cmp.Compare(slices.Index(models.Tiers, a.Lane), slices.Index(models.Tiers, b.Lane)),
			cmp.Compare(a.VirtualTime, b.VirtualTime),
			cmp.Compare(a.Order, b.Order),
			cmp.Compare(a.ID, b.ID),
		)
	})
	type place struct {
		lane    models.Tier
		account models.AccountID
	}
	seen := map[place]bool{}
	return slices.DeleteFunc(heads, func(j jobs.ReadyJob) bool {
		again := seen[place{j.Lane, j.Account}]
		seen[place{j.Lane, j.Account}] = true
		return again
	})
}

// Rebuild makes a lost index anew from these jobs. It returns an error that is
// [jobs.ErrIndexLost] if Redis cannot be reached.
//
// The index is there again, still empty, before its jobs are in, so that no Add
// of others is refused meanwhile. Of several processes that rebuild at once
// only the first empties it, the others but add, and the order in which jobs are
// added does not matter. A job that was removed after the caller had read it is
// a stale hint like any other.
func (x *Index) Rebuild(ctx context.Context, all []jobs.ReadyJob) error {
	args := []any{x.prefix, rand.Text()}
	for _, lane := range models.Tiers {
		args = append(args, string(lane))
	}
	if err := beginScript.Run(ctx, x.client, []string{x.epoch()}, args...).Err(); err != nil {
		return lost(err)
	}
	return x.Add(ctx, all...)
}

// Wakes calls found with each model that jobs are added for, by any process but
// this one, until ctx ends; then it returns nil. While Redis cannot be reached it goes on
// trying, and wakes are lost.
func (x *Index) Wakes(ctx context.Context, found func(model string)) error {
	wakes := x.client.Subscribe(ctx, x.prefix+"wakes")
	defer wakes.Close()
	messages := wakes.Channel()
	for {
		select {
		case message := <-messages:
			if origin, model, ok := strings.Cut(message.Payload, ":"); ok && origin != x.self {
				found(model)
			}
		case <-ctx.Done():
			return nil
		}
	}
}

func (x *Index) epoch() string { return x.prefix + "epoch" }

// lost makes any trouble with Redis a lost index: PostgreSQL answers instead.
func lost(err error) error { return fmt.Errorf("%w: %w", jobs.ErrIndexLost, err) }
