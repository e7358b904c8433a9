// Package command is a provider that creates and deletes machines with a small program, so that
// any cloud can be used. docs/operators/providers.md describes the protocol.
//
// The programs lie in a folder that control's configuration names. Pools, which operators write
// over the API, name one of them: they cannot make control run anything else.
package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
)

// Name is the provider's name, in pools and at registration.
const Name = "command"

// Config says which programs there are and what new machines need.
type Config struct {
	// Folder holds the programs.
	Folder string
	// Enrolment is passed to a program that creates machines, and to no other call.
	Enrolment fleet.Enrolment
	// Log gets what the programs write to their standard error; nil means the default logger.
	Log *slog.Logger
}

// Provider runs a program per call. It implements [fleet.Preemptor]. Its methods can be called
// concurrently.
type Provider struct {
	config Config

	mu   sync.Mutex
	logs map[string]*limiter // by program
	// strangers are the pools whose program listed machines of others, which is logged once.
	strangers map[models.PoolID]bool
	// trial looks closer at each call; nil in control.
	trial *trial
}

// New returns a provider of the programs in a folder.
func New(config Config) *Provider {
	if folder, err := filepath.Abs(config.Folder); err == nil {
		config.Folder = folder
	}
	return &Provider{config: config, logs: map[string]*limiter{}, strangers: map[models.PoolID]bool{}}
}

// CreateLimit is how long the scaler waits for a machine that no list names yet.
func (*Provider) CreateLimit() time.Duration { return maxSeconds*time.Second + stopGrace }

// Create implements [fleet.Provider]. An instance of which the program says nothing gets a
// Transient error: it may exist.
func (p *Provider) Create(ctx context.Context, pool *capacity.Pool, requestID string, ids []string) []fleet.Created {
	agent, err := p.config.Enrolment.Environment()
	if err != nil {
		return fleet.Undone(ids, fleet.Refuse(fleet.Permission, "no machine can be created: %w", err))
	}
	r := request{Verb: verbCreate, RequestID: requestID, Environment: agent}
	for _, id := range ids {
		r.Instances = append(r.Instances, requestInstance{ID: id, Arguments: fleet.AgentArguments(Name, pool, id)})
	}
	results := p.resultsOf(ctx, pool, r)
	var all []fleet.Created
	for _, id := range ids {
		all = append(all, fleet.Created{ID: id, Zone: results[id].Zone, Err: results[id].err})
	}
	return all
}

// Delete implements [fleet.Provider].
func (p *Provider) Delete(ctx context.Context, pool *capacity.Pool, instances []fleet.Instance) map[string]error {
	r := request{Verb: verbDelete}
	for _, i := range instances {
		r.Instances = append(r.Instances, requestInstance{ID: i.ID, Zone: i.Zone})
	}
	failed := map[string]error{}
	for id, result := range p.resultsOf(ctx, pool, r) {
		if result.err != nil {
			failed[id] = result.err
		}
	}
	return failed
}

// Preempt implements [fleet.Preemptor]. A program is free not to know the verb.
func (p *Provider) Preempt(ctx context.Context, pool *capacity.Pool, instance fleet.Instance, notice time.Duration) error {
	seconds := int(notice.Round(time.Second).Seconds())
	r := request{Verb: verbPreempt, NoticeSeconds: &seconds, Instances: []requestInstance{{ID: instance.ID, Zone: instance.Zone}}}
	if err := p.resultsOf(ctx, pool, r)[instance.ID].err; err != nil {
		return fmt.Errorf("preempt instance %s: %w", instance.ID, err)
	}
	return nil
}

// result is what became of one instance of a call.
type result struct {
	answer
	err error
}

// resultsOf runs the program and returns a result for each instance of the request.
func (p *Provider) resultsOf(ctx context.Context, pool *capacity.Pool, r request) map[string]result {
	results := map[string]result{}
	c, failed := p.call(ctx, pool, r)
	for _, i := range r.Instances {
		a, found := c.answers[i.ID]
		switch {
		case found:
			results[i.ID] = result{a, c.refusal(a)}
		case failed != nil:
			results[i.ID] = result{err: failed}
		default:
			results[i.ID] = result{err: fleet.Refuse(fleet.Transient, "the program %s ended without a result for this instance%s", c.program,
				c.because())}
		}
	}
	return results
}

// List implements [fleet.Provider]. It returns all machines or an error: a machine that is left
// out counts as gone. Machines whose id is not of the pool's form are ignored.
func (p *Provider) List(ctx context.Context, pool *capacity.Pool) ([]fleet.Instance, error) {
	c, all, err := p.instances(ctx, pool)
	if err != nil {
		return nil, err
	}
	owned := slices.DeleteFunc(slices.Clone(all), func(i fleet.Instance) bool { return !fleet.IsInstanceID(pool.Name, i.ID) })
	p.noteStrangers(ctx, c, pool, len(all)-len(owned))
	return owned, nil
}

// instances returns all machines that the program lists, or an error.
func (p *Provider) instances(ctx context.Context, pool *capacity.Pool) (*call, []fleet.Instance, error) {
	c, err := p.call(ctx, pool, request{Verb: verbList})
	if err == nil && c.problem != "" {
		err = fleet.Refuse(fleet.Transient, "the list of the program %s cannot be used%s", c.program, c.because())
	}
	if err != nil {
		return c, nil, err
	}
	all := []fleet.Instance{}
	for _, id := range c.order {
		a := c.answers[id]
		all = append(all, fleet.Instance{ID: id, Zone: a.Zone, State: a.State, CreatedAt: a.CreatedAt, Reclaimed: a.Reclaimed})
	}
	return c, all, nil
}

// FindProgram returns an error if a folder does not have the program of a pool.
func FindProgram(folder string, pool *capacity.Pool) error {
	settings, err := readSettings(pool)
	if err == nil {
		_, err = find(folder, settings.Program)
	}
	return err
}

// find returns the path of a program in a folder.
func find(folder, name string) (string, error) {
	path := filepath.Join(folder, name)
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a file")
	}
	if err != nil {
		return "", fleet.Refuse(fleet.Invalid,
			"the program %s is not in the folder of REELAY_PROVIDERS (%s): put it there, or change settings.program", name, reason(err))
	}
	if _, err := exec.LookPath(path); err != nil {
		return "", fleet.Refuse(fleet.Permission, "the program %s cannot be run (%s): make it executable", name, reason(err))
	}
	return path, nil
}

// reason is an error without the path, which is not the business of those who write pools.
func reason(err error) string {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	var lookup *exec.Error
	if errors.As(err, &lookup) {
		return lookup.Err.Error()
	}
	return text.Clip(err.Error(), maxMessage)
}
