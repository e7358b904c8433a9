package command

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/internal/text"
	"github.com/samber/lo"
)

// check is one thing that a program must do.
type check struct {
	name, doing, rule string
	run               func(context.Context) *flaw
	// needed means that no later check can run if this one fails.
	needed bool
}

// checks returns the checks, in the order in which they run. At no time are there more machines
// than were allowed.
func (t *trial) checks() []check {
	first, requestID := t.newIDs(t.Machines), uuid.NewString()
	return []check{
		{"list", "lists a pool without machines", "The list of a pool without machines has the status 0 and no lines.", t.listsNothing, true},
		{"unknown-verb", "calls it with a verb that it does not know", "A verb that the program does not know ends it with the status 14.",
			t.refusesVerb, false},
		{"delete-unknown", "deletes a machine that does not exist", "A delete of a machine that does not exist is a success.",
			t.deletesNothing, true},
		{"preempt-unknown", "gives notice to a machine that does not exist",
			"A preempt of a machine that does not exist has the class GONE, or the program does not know the verb.", t.preemptsNothing, false},
		{"create", fmt.Sprintf("creates %d machines in one call", t.Machines),
			"A create has one line per machine, and the list has all of them.",
			func(ctx context.Context) *flaw { return t.createsAll(ctx, requestID, first) }, true},
		{"repeat", "repeats the create, with the same and with another request id",
			"A create of machines that exist is a success, and creates nothing.",
			func(ctx context.Context) *flaw { return t.repeats(ctx, requestID, first) }, true},
		{"unknown-fields", "sends fields that it does not know", "Fields that the program does not know change nothing.",
			func(ctx context.Context) *flaw { return t.ignoresFields(ctx, first) }, false},
		{"other-pool", "lists another pool", "A list has the machines of its pool only.", t.listsPool, false},
		{"delete", "deletes one machine", "A delete ends the machines of the request and no others.",
			func(ctx context.Context) *flaw { return t.deletesOne(ctx, first) }, true},
		{"delete-again", "deletes the machine again", "A delete of a machine that is gone is a success.",
			func(ctx context.Context) *flaw { return t.deletesAgain(ctx, first) }, true},
		{"list-while-creating", "lists while a create runs", "A list is whole while a create runs.",
			t.listsWhileCreating, true},
		{"killed-create", "kills it in the middle of a create, and repeats the create",
			"After a create that was killed, the list has the machine, or a repeat creates it once.", t.survivesKill, true},
		{"invalid-options", "creates a machine with options that make no sense",
			"Options that make no sense are refused with the class INVALID.",
			t.refusesOptions, false},
	}
}

func (t *trial) listsNothing(ctx context.Context) *flaw {
	if _, fault := t.list(ctx); fault != nil {
		return fault
	}
	if c := t.ended(); len(c.order) > 0 {
		return strangers(len(c.order), c.order[0])
	}
	return nil
}

// strangers is the fault of a list that has the machines of others.
func strangers(n int, id string) *flaw {
	return &flaw{found: fmt.Sprintf("Its list has machines that are not the pool's (%d), such as %s.", n, text.Clip(id, 64)),
		fix: "Label each machine with pool.name or pool.id when it is created, and list only those with the label of the request's pool."}
}

func (t *trial) refusesVerb(ctx context.Context) *flaw {
	_, err := t.provider.call(ctx, t.pool, request{Verb: "reelay-test"})
	if err != nil && strings.Contains(err.Error(), "does not know the verb") {
		return nil
	}
	found := "It ended with the status 0."
	if err != nil {
		found = "It said: " + strings.TrimSuffix(err.Error(), ".") + "."
	}
	return &flaw{found: found,
		fix: "End with the status 14 if the first argument is none of the verbs that the program knows, before anything else."}
}

func (t *trial) deletesNothing(ctx context.Context) *flaw {
	id := t.newIDs(1)[0]
	if err := t.provider.Delete(ctx, t.pool, []fleet.Instance{{ID: id}})[id]; err != nil {
		return undeleted(id, err)
	}
	return nil
}

func (t *trial) preemptsNothing(ctx context.Context) *flaw {
	id := t.newIDs(1)[0]
	err := t.provider.Preempt(ctx, t.pool, fleet.Instance{ID: id}, time.Second)
	switch {
	case err == nil:
		return &flaw{found: "It says that it gave notice to a machine that does not exist.",
			fix: "Answer with an error of the class GONE, or end with the status 14 if the program cannot give notice."}
	case strings.Contains(err.Error(), fleet.ErrNoInstance.Error()), strings.Contains(err.Error(), "does not know the verb"):
		return nil
	}
	return &flaw{found: "It answered " + string(fleet.ClassOf(err)) + ": " + strings.TrimSuffix(err.Error(), ".") + ".",
		fix: "Answer with an error of the class GONE, or end with the status 14 if the program cannot give notice."}
}

func (t *trial) createsAll(ctx context.Context, requestID string, ids []string) *flaw {
	began := time.Now()
	if err := t.create(ctx, t.pool, requestID, ids); err != nil {
		return refused(fmt.Sprintf("Asked for %d machines", len(ids)), err)
	}
	t.took = time.Since(began)
	return t.listed(ctx, ids...)
}

func (t *trial) repeats(ctx context.Context, requestID string, ids []string) *flaw {
	for _, again := range []string{requestID, uuid.NewString()} {
		if err := t.create(ctx, t.pool, again, ids); err != nil {
			f := refused("Asked again for machines that exist", err)
			f.level, f.fix = LevelWrong, "Look for a machine of the id before you create it, and answer with the id if there is one."
			return f
		}
		if fault := t.listed(ctx, ids...); fault != nil {
			return fault
		}
	}
	return nil
}

func (t *trial) ignoresFields(ctx context.Context, ids []string) *flaw {
	t.unknown = true
	defer func() { t.unknown = false }()
	if err := t.create(ctx, t.pool, uuid.NewString(), ids[:1]); err != nil {
		f := refused("Asked for a machine that exists, with unknown fields", err)
		f.level = LevelWrong
		f.fix = "Ignore fields of the request, the pool and the instances that the program does not know: later versions of Reelay have more."
		return f
	}
	return t.listed(ctx, ids...)
}

func (t *trial) listsPool(ctx context.Context) *flaw {
	if _, err := t.provider.List(ctx, t.other()); err != nil {
		fault := blame(err, "A list of a pool that the program has not seen before has the status 0 and no lines.")
		fault.found = "Its list of another pool failed: " + strings.TrimSuffix(err.Error(), ".") + "."
		return fault
	}
	if c := t.ended(); len(c.order) > 0 {
		return strangers(len(c.order), c.order[0])
	}
	return nil
}

func (t *trial) deletesOne(ctx context.Context, ids []string) *flaw {
	if fault := t.remove(ctx, ids[0]); fault != nil {
		return fault
	}
	if fault := t.listed(ctx, ids[1:]...); fault != nil {
		return &flaw{found: fmt.Sprintf("After a delete of %s: %s", ids[0], fault.found), fix: "Delete the instances of the request only."}
	}
	return nil
}

func (t *trial) deletesAgain(ctx context.Context, ids []string) *flaw {
	if fault := t.remove(ctx, ids[0]); fault != nil {
		return fault
	}
	return t.clear(ctx)
}

func (t *trial) listsWhileCreating(ctx context.Context) *flaw {
	ids := t.newIDs(t.Machines)
	creating := make(chan error, 1)
	t.claim(ids)
	go func() {
		var first error
		for _, created := range t.provider.Create(ctx, t.pool, uuid.NewString(), ids) {
			if first == nil {
				first = created.Err
			}
		}
		creating <- first
	}()
	var found *flaw
	for lists, err, done := 0, error(nil), false; !done || lists == 0; lists++ {
		select {
		case err = <-creating:
			done = true
			if err != nil {
				found = refused(fmt.Sprintf("Asked for %d machines while lists ran", len(ids)), err)
			}
		default:
		}
		all, fault := t.list(ctx)
		for _, i := range all {
			if fault == nil && !slices.Contains(ids, i.ID) && i.State != fleet.InstanceEnding {
				fault = strangers(1, i.ID)
			}
		}
		if fault != nil && found == nil {
			fault.found = "While a create ran: " + fault.found
			fault.fix = "Write what the program keeps of a machine in one step, such as a rename, " +
				"and list machines that are being created as BOOTING. " + fault.fix
			found = fault
		}
		if ctx.Err() != nil && !done {
			<-creating
			done = true
		}
	}
	if found == nil {
		found = t.listed(ctx, ids...)
	}
	if found != nil {
		return found
	}
	return t.clear(ctx)
}

// survivesKill kills the program early, in the middle and late in a create.
func (t *trial) survivesKill(ctx context.Context) *flaw {
	for _, after := range []time.Duration{t.took / time.Duration(2*t.Machines), t.took / 3, t.took * 3 / 4} {
		if fault := t.survives(ctx, after); fault != nil {
			return fault
		}
	}
	return nil
}

// survives kills the program some time after it began to create a machine.
func (t *trial) survives(ctx context.Context, after time.Duration) *flaw {
	id, requestID := t.newIDs(1)[0], uuid.NewString()
	t.setCut(true, 0)
	killed, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(after, cancel)
	_ = t.create(killed, t.pool, requestID, []string{id})
	timer.Stop()
	cancel()
	t.setCut(false, stopGrace)
	if _, fault := t.list(ctx); fault != nil {
		fault.found = "After a create that was killed: " + fault.found
		fault.fix = "Write what the program keeps of a machine in one step, such as a rename, so that a list can always read it."
		return fault
	}
	if err := t.create(ctx, t.pool, requestID, []string{id}); err != nil {
		f := refused("Asked again for a machine whose create was killed", err)
		f.fix = "Carry on where the killed create stopped: look for a machine of the id, and create it if there is none."
		return f
	}
	fault := t.listed(ctx, id)
	if fault == nil {
		fault = t.clear(ctx)
	}
	if fault != nil {
		fault.found = "A create was killed and repeated. " + fault.found
	}
	return fault
}

// claim notes that machines may exist from now on.
func (t *trial) claim(ids []string) {
	for _, id := range ids {
		t.made[id] = fleet.Instance{ID: id}
	}
}

func (t *trial) setCut(cut bool, grace time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cut, t.grace = cut, grace
}

// refusesOptions replaces each option by one of a wrong type, and adds one.
func (t *trial) refusesOptions(ctx context.Context) *flaw {
	options := map[string]any{}
	_ = json.Unmarshal(optionsOf(t.settings), &options) // it is an object
	options = lo.MapValues(options, func(any, string) any { return []string{unknownFields} })
	options[unknownFields] = true
	pool := *t.pool
	settings := *t.settings
	settings.Options, _ = json.Marshal(options)
	pool.Settings, _ = json.Marshal(settings)
	id := t.newIDs(1)[0]
	err := t.create(ctx, &pool, uuid.NewString(), []string{id})
	problem := t.takeFaults()
	fault := t.clear(ctx)
	shown := text.Clip(string(settings.Options), 200)
	switch {
	case problem != nil:
		return problem
	case err != nil && fleet.ClassOf(err) != fleet.Invalid:
		return &flaw{found: fmt.Sprintf("Given the options %s, it answered %s: %s.", shown, fleet.ClassOf(err),
			strings.TrimSuffix(err.Error(), ".")),
			fix: "Check the options first, and end with the status 13 after a sentence that says what is wrong. Of other classes " +
				"the scaler asks again and again."}
	case fault != nil:
		return fault
	case err == nil:
		return &flaw{level: LevelAdvice,
			found: fmt.Sprintf("It created a machine with the options %s.", shown),
			fix:   "Refuse options that the program does not know, with the status 13: otherwise nobody sees a mistyped one."}
	}
	return nil
}
