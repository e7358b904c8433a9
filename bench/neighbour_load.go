package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/reelay/reelay/bench/wire"
	"github.com/reelay/reelay/client"
	"golang.org/x/sync/errgroup"
)

// maxNodes is how many nodes a workflow may have.
const maxNodes = 10_000

// neighbour is an account that makes as much load as it can. It obeys the API's refusals.
type neighbour struct {
	site                      *Site
	api                       *client.Client
	key                       string
	endpoint                  *url.URL
	nodes, streams, schedules int

	did  tally
	jobs atomic.Pointer[[]string] // some that have not ended
	open atomic.Int64             // streams
}

func (s *Site) newNeighbour(ctx context.Context, nodes int) (*neighbour, error) {
	n := &neighbour{site: s, nodes: nodes, streams: max(1, nodes/20), schedules: max(1, nodes/10)}
	if err := enoughFiles(n.streams); err != nil {
		return nil, err
	}
	account, err := s.Admin.CreateAccount(ctx, client.AccountInput{
		Name: new("bench neighbour " + uuid.NewString()), Tier: new(client.TierBatch), MaxQueued: new(3 * nodes),
	})
	if err != nil {
		return nil, err
	}
	if n.key, err = s.key(ctx, account.Id, client.RoleClient); err != nil {
		return nil, err
	}
	if n.endpoint, err = url.Parse(s.Admin.Endpoint()); err != nil {
		return nil, err
	}
	// one try, so that each refusal is counted
	if n.api, err = client.New(s.Admin.Endpoint(), n.key, client.WithTries(1)); err != nil {
		return nil, err
	}
	s.later(n.leave)
	return n, nil
}

// leave cancels the workflows of the neighbour and deletes its schedules.
func (n *neighbour) leave(ctx context.Context) error {
	api := n.site.Admin.WithKey(n.key)
	workflows, err := api.Workflows(ctx, "", []client.WorkflowStatus{client.WorkflowStatusRunning}, 50, "")
	if err != nil {
		return err
	}
	for _, edge := range workflows.Edges {
		if _, err := api.CancelWorkflow(ctx, edge.Node.Id, "the measurement is over"); err != nil {
			return err
		}
	}
	for {
		page, err := api.Schedules(ctx, "", 100, "")
		if err != nil || len(page.Edges) == 0 {
			return err
		}
		err = atOnce(ctx, len(page.Edges), func(ctx context.Context, i int) error {
			return api.DeleteSchedule(ctx, page.Edges[i].Node.Id)
		})
		if err != nil {
			return err
		}
	}
}

// work makes the load until ctx ends.
func (n *neighbour) work(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return n.repeat(ctx, n.submitting()) })
	group.Go(func() error { return n.repeat(ctx, n.editing()) })
	var next atomic.Int64
	for range 2 {
		group.Go(func() error { return n.repeat(ctx, n.paging()) })
		group.Go(func() error {
			return n.repeat(ctx, func(ctx context.Context) error { return n.schedule(ctx, int(next.Add(1)-1)) })
		})
	}
	group.Go(func() error { return n.repeat(ctx, n.find) })
	for range n.streams {
		group.Go(func() error { return n.follow(ctx) })
	}
	return group.Wait()
}

// repeat makes a call again and again until ctx ends. After a refusal it waits as long as the API
// asks for.
func (n *neighbour) repeat(ctx context.Context, call func(context.Context) error) error {
	for {
		err := call(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			continue
		}
		refused, ok := errors.AsType[*client.Error](err)
		switch {
		case ok && (refused.Retryable() || refused.Code == client.CodeQuotaExceeded):
			n.did.add("refusals", 1)
		case ok && refused.Code == client.CodeConflict: // another loop was faster
			n.did.add("conflicts", 1)
		default:
			return fmt.Errorf("the neighbour: %w", err)
		}
		_ = pause(ctx, max(refused.RetryAfter, time.Second))
	}
}

// newGraph returns a workflow of ten chains, so that a cancel has long ones to follow.
func (n *neighbour) newGraph() client.SubmitWorkflowInput {
	graph := client.SubmitWorkflowInput{Name: "bench", Jobs: make([]client.WorkflowJobInput, n.nodes)}
	params := json.RawMessage(`{"payload": "x"}`)
	for i := range graph.Jobs {
		node := &graph.Jobs[i]
		node.Key, node.Job = fmt.Sprintf("n%d", i), client.SubmitJobInput{Type: new(noop), Model: noop, Params: &params}
		if i > 0 {
			node.After = []string{fmt.Sprintf("n%d", max(0, i-10))}
		}
	}
	return graph
}

// inOrder returns a call that makes these calls in turns. A call that was refused is made again, except
// after a CONFLICT.
func inOrder(calls ...func(context.Context) error) func(context.Context) error {
	i := 0
	return func(ctx context.Context) error {
		err := calls[i](ctx)
		if err == nil || client.ErrorCode(err) == client.CodeConflict {
			i = (i + 1) % len(calls)
		}
		return err
	}
}

// submit returns a call that submits a workflow and stores its id.
func (n *neighbour) submit(id *string) func(context.Context) error {
	graph := n.newGraph()
	return func(ctx context.Context) error {
		made, err := n.api.SubmitWorkflow(ctx, graph)
		if err == nil {
			*id = made.Id
			n.did.add("jobs submitted", n.nodes)
		}
		return err
	}
}

// submitting returns calls that submit a workflow, cancel it, retry it, and cancel it again.
func (n *neighbour) submitting() func(context.Context) error {
	var id string
	cancel := func(ctx context.Context) error {
		ended, err := n.api.CancelWorkflow(ctx, id, "")
		if err == nil {
			n.did.add("jobs cancelled", ended.Counts.Cancelled)
		}
		return err
	}
	retry := func(ctx context.Context) error {
		again, err := n.api.RetryWorkflow(ctx, id, false)
		if err == nil {
			n.did.add("jobs retried", again.Counts.Waiting)
		}
		return err
	}
	return inOrder(n.submit(&id), cancel, retry, cancel)
}

// editing returns calls that submit a workflow and then set the priority of all its jobs and cancel
// them, each by a bulk operation.
func (n *neighbour) editing() func(context.Context) error {
	var id string
	bulk := func(action client.BulkAction, priority *int) func(context.Context) error {
		return func(ctx context.Context) error {
			return n.bulk(ctx, client.BulkInput{
				Action: action, Priority: priority, Filter: &client.JobFilter{WorkflowId: &id}, Eligible: true, PerMinute: 60_000,
			})
		}
	}
	return inOrder(n.submit(&id), bulk(client.BulkActionSetPriority, new(50)), bulk(client.BulkActionCancel, nil))
}

// bulk starts a bulk operation and waits for its end.
func (n *neighbour) bulk(ctx context.Context, in client.BulkInput) error {
	op, err := n.api.StartBulk(ctx, in, false)
	if err != nil {
		return err
	}
	for done := 0; ; {
		n.did.add("jobs edited in bulk", op.Done-done)
		done = op.Done
		if op.FinishedAt != nil {
			return nil
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return err
		}
		if op, err = n.api.BulkOperation(ctx, op.Id); err != nil {
			return err
		}
	}
}

// paging returns a call that reads the next page of all jobs.
func (n *neighbour) paging() func(context.Context) error {
	after := ""
	return func(ctx context.Context) error {
		page, err := n.api.Jobs(ctx, client.JobFilter{}, 100, after)
		if err != nil {
			return err
		}
		n.did.add("pages read", 1)
		after = ""
		if page.PageInfo.HasNextPage && page.PageInfo.EndCursor != nil {
			after = *page.PageInfo.EndCursor
		}
		return nil
	}
}

// schedule creates a schedule, or changes it if it exists.
func (n *neighbour) schedule(ctx context.Context, i int) error {
	params := json.RawMessage(fmt.Sprintf(`{"payload": "%d"}`, i))
	_, err := n.api.ApplySchedule(ctx, client.ScheduleInput{
		Name: fmt.Sprintf("neighbour %d", i%n.schedules), EverySeconds: new(60),
		Job: &client.SubmitJobInput{Type: new(noop), Model: noop, Params: &params},
	})
	switch {
	case err != nil:
	case i < n.schedules:
		n.did.add("schedules created", 1)
	default:
		n.did.add("schedules changed", 1)
	}
	return err
}

// find looks for jobs that streams can follow.
func (n *neighbour) find(ctx context.Context) error {
	page, err := n.api.Jobs(ctx, client.JobFilter{Status: []client.JobStatus{client.JobStatusBlocked, client.JobStatusQueued}}, 100, "")
	if err != nil {
		return err
	}
	ids := make([]string, len(page.Edges))
	for i, edge := range page.Edges {
		ids[i] = edge.Node.Id
	}
	n.jobs.Store(&ids)
	if len(ids) == 0 {
		return pause(ctx, comeAgain)
	}
	return pause(ctx, time.Second)
}

// follow keeps a stream open until ctx ends: of one job until it has ended, and then of another one.
func (n *neighbour) follow(ctx context.Context) error {
	for ctx.Err() == nil {
		jobs := n.jobs.Load()
		if jobs == nil || len(*jobs) == 0 {
			_ = pause(ctx, comeAgain)
			continue
		}
		l, err := wire.OpenEvents(ctx, n.endpoint, n.key, (*jobs)[rand.IntN(len(*jobs))])
		if err != nil {
			if ctx.Err() == nil {
				n.did.add("streams refused", 1)
				_ = pause(ctx, time.Second)
			}
			continue
		}
		n.did.most("streams open", int(n.open.Add(1)))
		stop := context.AfterFunc(ctx, func() { l.Conn.Close() })
		err = l.Listen(func(bool, time.Duration) { n.did.add("events received", 1) })
		stop()
		n.open.Add(-1)
		l.Conn.Close()
		if err != nil && ctx.Err() == nil {
			n.did.add("streams refused", 1)
			_ = pause(ctx, time.Second)
		}
	}
	return nil
}

// tally counts things by their names.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func (t *tally) add(name string, n int) {
	t.change(name, func(before int) int { return before + n })
}

// most keeps the greatest of the numbers with this name.
func (t *tally) most(name string, n int) {
	t.change(name, func(before int) int { return max(before, n) })
}

func (t *tally) change(name string, to func(before int) int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts = map[string]int{}
	}
	t.counts[name] = to(t.counts[name])
}

// into adds the counts to figures.
func (t *tally) into(f Figures) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, n := range t.counts {
		f["neighbour: "+name] = float64(n)
	}
}
