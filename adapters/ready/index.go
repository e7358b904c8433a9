// Package ready is what Redis knows: the ready index, and notifications of jobs.
//
// Redis may lose all of it at any time. PostgreSQL decides every claim. The index only
// makes the usual path fast, and the next sweep restores it.
//
// All keys begin with "{prefix}:", so that on a Redis Cluster they share a slot:
//
//	epoch                 says that the index is there; gone, it is lost
//	queue:QUEUE           sorted set by virtual time: "order:account:job", each
//	                      account's first job; those of equal time sort by order
//	heads:QUEUE           hash of each account's member in that queue
//	accounts              set of the accounts that have jobs
//	queues:ACCOUNT        set of the queues that the account has jobs in
//	jobs:ACCOUNT:QUEUE    sorted set by order: the account's jobs there
//	times                 hash of "LINE:ACCOUNT": its virtual time
//	standings             hash of accounts: "version:1" at its cap, else "version:0"
//	never                 does not exist, see run
//
// The name of a queue is "LINE:RANK:REGION:MODEL", or "LINE:RANK:REGION&NEEDS:MODEL" if its
// jobs need anything. That of a line is its lane's, with a plus for the promoted jobs. The
// channels are "wakes", with an Index's own mark, an account and the name of a queue without
// its line, and "news:JOB".
package ready

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
)

var (
	//go:embed account.lua
	accountSource string
	//go:embed update.lua
	updateSource string
	//go:embed flow.lua
	flowSource string
	//go:embed first.lua
	firstSource string
	//go:embed begin.lua
	beginSource string

	updateScript = redis.NewScript(accountSource + updateSource)
	flowScript   = redis.NewScript(accountSource + flowSource)
	firstScript  = redis.NewScript(firstSource)
	beginScript  = redis.NewScript(beginSource)
)

// updateBatch is how many jobs one script handles. A script blocks Redis for a few
// milliseconds.
const updateBatch = 200

// Index is the ready index in Redis.
type Index struct {
	client  redis.UniversalClient
	prefix  string // of all keys, with the colon
	self    string // known to no other process
	timeout time.Duration
}

var _ jobs.ReadyIndex = (*Index)(nil)

// New returns the index under that prefix. The client must come from [NewClient]. New also
// sends go-redis's own log to slog.
func New(client redis.UniversalClient, prefix string) *Index {
	redis.SetLogger(redisLog{})
	return &Index{client: client, prefix: keyPrefix(prefix), self: rand.Text(), timeout: callTimeout}
}

func keyPrefix(prefix string) string { return "{" + prefix + "}:" }

// Add puts jobs in, or moves existing ones to their new order, and notifies all processes of
// their queues. It returns an error that is [jobs.ErrIndexLost] if the index is lost or Redis
// cannot be reached.
func (x *Index) Add(ctx context.Context, added ...jobs.ReadyJob) error {
	return x.update(ctx, "ZADD", added)
}

// Remove takes jobs out, ignoring missing ones, and moves their accounts to their new virtual
// times. It returns an error that is [jobs.ErrIndexLost] if the index is lost or Redis cannot
// be reached.
func (x *Index) Remove(ctx context.Context, removed ...jobs.ReadyJob) error {
	return x.update(ctx, "ZREM", removed)
}

func (x *Index) update(ctx context.Context, verb string, changed []jobs.ReadyJob) error {
	for batch := range slices.Chunk(changed, updateBatch) {
		args := []any{x.prefix, verb, x.self}
		for _, j := range batch {
			args = append(args, queueName(j.Queue), string(j.Account), jobName(j), j.Order, j.VirtualTime)
		}
		there, err := x.run(ctx, updateScript, args).Bool()
		if err != nil {
			return lost(err)
		}
		if !there {
			return jobs.ErrIndexLost
		}
	}
	return nil
}

// SetFlows removes accounts at their running limit from all queues, and returns the others. It
// ignores a flow state older than the index's. It returns an error that is [jobs.ErrIndexLost]
// if the index is lost or Redis cannot be reached.
func (x *Index) SetFlows(ctx context.Context, standings ...models.FlowState) error {
	for _, s := range standings {
		args := []any{x.prefix, x.self, string(s.AccountID), s.Version, s.Capped}
		for _, place := range s.Places {
			args = append(args, lineName(place.Line), place.VirtualTime)
		}
		there, err := x.run(ctx, flowScript, args).Bool()
		if err != nil {
			return lost(err)
		}
		if !there {
			return jobs.ErrIndexLost
		}
	}
	return nil
}

// First returns at most n heads of the first line that has any in these queues, which are
// ordered by line: the first job of each account, by the accounts' virtual times. If there are
// accounts, it leaves out the others. It returns an error that is [jobs.ErrIndexLost] if the
// index is lost or Redis cannot be reached.
func (x *Index) First(ctx context.Context, queues []models.Queue, accounts []models.AccountID, n int) ([]jobs.ReadyJob, error) {
	if n <= 0 {
		return nil, nil
	}
	args := []any{x.prefix, n, len(accounts)}
	for _, id := range accounts {
		args = append(args, string(id))
	}
	for _, q := range queues {
		args = append(args, queueName(q))
	}
	rows, err := x.run(ctx, firstScript, args).StringSlice()
	if errors.Is(err, redis.Nil) {
		return nil, jobs.ErrIndexLost
	}
	if err != nil {
		return nil, lost(err)
	}
	heads, err := readHeads(rows, queues)
	if err != nil {
		return nil, lost(err)
	}
	heads = best(heads)
	return heads[:min(n, len(heads))], nil
}

// readHeads reads what first.lua returns.
func readHeads(rows []string, queues []models.Queue) ([]jobs.ReadyJob, error) {
	var heads []jobs.ReadyJob
	for row := range slices.Chunk(rows, 3) {
		q, err := strconv.Atoi(row[0])
		if err != nil {
			return nil, err
		}
		head := strings.SplitN(row[1], ":", 3)
		if len(head) != 3 {
			return nil, fmt.Errorf("malformed head %q", row[1])
		}
		order, err := strconv.ParseInt(head[0], 10, 64)
		if err != nil {
			return nil, err
		}
		time, err := strconv.ParseFloat(row[2], 64)
		if err != nil {
			return nil, err
		}
		id, wish, _ := strings.Cut(head[2], ":")
		heads = append(heads, jobs.ReadyJob{
			Queue: queues[q], Order: order, VirtualTime: time,
			Account: models.AccountID(head[1]), ID: models.JobID(id), PreferredRegion: wish,
		})
	}
	return heads, nil
}

// best sorts the heads of a line's queues together, and keeps the first of each account.
func best(heads []jobs.ReadyJob) []jobs.ReadyJob {
	slices.SortFunc(heads, func(a, b jobs.ReadyJob) int {
		return cmp.Or(cmp.Compare(a.VirtualTime, b.VirtualTime), cmp.Compare(a.Order, b.Order), cmp.Compare(a.ID, b.ID))
	})
	seen := map[models.AccountID]bool{}
	return slices.DeleteFunc(heads, func(j jobs.ReadyJob) bool {
		again := seen[j.Account]
		seen[j.Account] = true
		return again
	})
}

// Rebuild fills a lost index with these jobs. It returns an error that is [jobs.ErrIndexLost]
// if Redis cannot be reached.
//
// The index exists, empty, before its jobs are in, so that no concurrent Add is refused. If
// several processes rebuild at once, only the first empties the index and the others add to
// it; the order of additions does not matter. A job that is removed after the caller read it
// becomes a stale hint like any other.
func (x *Index) Rebuild(ctx context.Context, all []jobs.ReadyJob) error {
	if err := x.run(ctx, beginScript, []any{x.prefix, rand.Text()}).Err(); err != nil {
		return lost(err)
	}
	return x.Add(ctx, all...)
}

// Wakes calls found with each queue and account that another process adds jobs to, until ctx
// ends; then it returns nil. While Redis cannot be reached it keeps trying, and wakes are lost.
func (x *Index) Wakes(ctx context.Context, found func(models.Queue, models.AccountID)) error {
	wakes := x.client.Subscribe(ctx, x.prefix+"wakes")
	defer wakes.Close()
	messages := wakes.Channel()
	for {
		select {
		case message := <-messages:
			origin, rest, _ := strings.Cut(message.Payload, ":")
			if account, topic, ok := strings.Cut(rest, ":"); ok && origin != x.self {
				found(readTopic(topic), models.AccountID(account))
			}
		case <-ctx.Done():
			return nil
		}
	}
}

func lineName(l models.Line) string {
	if l.Promoted {
		return string(l.Lane) + "+"
	}
	return string(l.Lane)
}

// queueName is a queue's name in keys. Only the model, at its end, may hold a
// colon.
func queueName(q models.Queue) string {
	place := url.QueryEscape(q.Region)
	if q.Needs != "" {
		place += "&" + url.QueryEscape(string(q.Needs))
	}
	return fmt.Sprintf("%s:%d:%s:%s", lineName(q.Line), q.GPURank, place, q.Model)
}

// readTopic parses the name of a queue without its line. For a malformed name it returns a
// queue that no worker serves.
func readTopic(topic string) models.Queue {
	parts := strings.SplitN(topic, ":", 3)
	if len(parts) != 3 {
		return models.Queue{}
	}
	rank, _ := strconv.Atoi(parts[0])
	place, asked, _ := strings.Cut(parts[1], "&")
	region, _ := url.QueryUnescape(place)
	needs, _ := url.QueryUnescape(asked)
	return models.Queue{GPURank: rank, Region: region, Needs: models.Needs(needs), Model: parts[2]}
}

// jobName is a job's member in its account's queue: its id, with its preferred region.
func jobName(j jobs.ReadyJob) string {
	if j.PreferredRegion == "" {
		return string(j.ID)
	}
	return string(j.ID) + ":" + j.PreferredRegion
}

// run runs a script with a short timeout.
func (x *Index) run(ctx context.Context, script *redis.Script, args []any) *redis.Cmd {
	ctx, cancel := context.WithTimeout(ctx, x.timeout)
	defer cancel()
	// While a cluster moves the slot of our keys to another node, a script would find some of them
	// and miss others. It then refuses a script that names several keys of which one is missing.
	return script.Run(ctx, x.client, []string{x.epoch(), x.prefix + "never"}, args...)
}

func (x *Index) epoch() string { return x.prefix + "epoch" }

// lost turns any Redis error into a lost index: PostgreSQL answers instead.
func lost(err error) error {
	// Redis does not say which command of a script it refused.
	if strings.Contains(err.Error(), "NOPERM") || strings.Contains(err.Error(), "user executing the script") {
		err = fmt.Errorf("the user of REDIS_URL lacks a right, which `reelay doctor` names: %w", err)
	}
	return fmt.Errorf("%w: %w", jobs.ErrIndexLost, err)
}
