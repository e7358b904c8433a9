// Package gce runs workers on machines of Google Compute Engine, Spot machines above all.
package gce

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"google.golang.org/api/compute/v1"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"
)

// Name is the provider's name, in pools and at registration.
const Name = "gce"

// Config says how Compute Engine is called and what machines are told.
type Config struct {
	// APIEndpoint replaces https://compute.googleapis.com, without credentials, for
	// tests. If it is empty, Google's default credentials are used.
	APIEndpoint string
	// Cluster names this installation of Reelay in the labels of its machines. Two
	// installations that share a project, or of which one began as a copy of the other's
	// database, need different names. The default is reelay.
	Cluster string
	// Enrolment is how the agents of new machines reach the API of Reelay.
	Enrolment fleet.Enrolment
	// Wait is how long a Create waits for the operations that it starts. The default is
	// 10 seconds.
	Wait time.Duration
	// CallTimeout is how long one call to Compute Engine can take. The default is 5
	// seconds.
	CallTimeout time.Duration
	// Retry is the pause before the first repetition of a call that failed in passing.
	// The default is 200 milliseconds.
	Retry time.Duration
}

// Provider implements [fleet.Provider]. It connects at the first call. All methods can be
// called at the same time.
type Provider struct {
	config Config

	mu       sync.Mutex
	service  *compute.Service
	stockout map[place]time.Time // until when other zones are tried first
	pending  map[string]*pending // operations that ran when Create returned, by instance
}

// place is a zone for the machines of a pool.
type place struct {
	pool models.PoolID
	zone string
}

var _ fleet.Provider = (*Provider)(nil)

// New returns a provider. It does not call Compute Engine.
func New(config Config) *Provider {
	if config.Cluster == "" {
		config.Cluster = "reelay"
	}
	if config.Wait == 0 {
		config.Wait = 10 * time.Second
	}
	if config.CallTimeout == 0 {
		config.CallTimeout = 5 * time.Second
	}
	if config.Retry == 0 {
		config.Retry = 200 * time.Millisecond
	}
	return &Provider{config: config, stockout: map[place]time.Time{}, pending: map[string]*pending{}}
}

// CreateLimit is how long a Create takes at most.
func (p *Provider) CreateLimit() time.Duration { return p.config.Wait }

// connect returns the client of the API.
func (p *Provider) connect() (*compute.Service, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.service != nil {
		return p.service, nil
	}
	// Not the context of a call: credentials refresh with it for as long as they are used.
	service, err := compute.NewService(context.Background(), p.config.options("/compute/v1/")...)
	if err != nil {
		return nil, fleet.Refuse(fleet.Permission,
			"connect to Compute Engine: %w; set GOOGLE_APPLICATION_CREDENTIALS, or run control on a machine with a service account", err)
	}
	p.service = service
	return service, nil
}

// options are for a service below this path of the endpoint.
func (c *Config) options(path string) []option.ClientOption {
	if c.APIEndpoint == "" {
		return nil
	}
	return []option.ClientOption{option.WithEndpoint(strings.TrimRight(c.APIEndpoint, "/") + path), option.WithoutAuthentication()}
}

// of returns the client and what the pool's machines are like.
func (p *Provider) of(pool *capacity.Pool) (*compute.Service, *machine, error) {
	s, err := ReadSettings(pool)
	if err == nil {
		err = CheckPool(pool)
	}
	if err != nil {
		return nil, nil, &fleet.ProviderError{Class: fleet.Invalid, Err: err}
	}
	service, err := p.connect()
	return service, &machine{config: &p.config, pool: pool, s: s}, err
}

// enrolment returns what agents need to reach the API, and the key apart from the rest. The
// key is read anew each time, because its file can be replaced.
func (p *Provider) enrolment() (environment map[string]string, key string, err error) {
	environment, err = p.config.Enrolment.Environment()
	if err != nil {
		return nil, "", &fleet.ProviderError{Class: fleet.Permission, Err: err}
	}
	key = environment[keyVariable]
	delete(environment, keyVariable)
	return environment, key, nil
}

// keyVariable is the variable that has the enrolment key.
const keyVariable = "REELAY_API_KEY"

// tries is how often a call is made that fails in passing.
const tries = 3

// call makes a call with a limit of time, and repeats it if it failed in passing. The call
// must be harmless to repeat: requests that write carry a request id.
func call[T any](ctx context.Context, p *Provider, do func(ctx context.Context) (T, error)) (T, error) {
	pause := p.config.Retry
	for try := 1; ; try++ {
		one, cancel := context.WithTimeout(ctx, p.config.CallTimeout)
		result, err := do(one)
		cancel()
		err = classify(err)
		if err == nil || try == tries || fleet.ClassOf(err) != fleet.Transient {
			return result, err
		}
		select {
		case <-ctx.Done():
			return result, err
		case <-time.After(pause):
		}
		pause *= 2
	}
}

// nameUUID returns a UUID that depends on the parts only.
func nameUUID(parts ...string) uuid.UUID {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte("reelay/gce/"+strings.Join(parts, "/")))
}

// deleting is how many machines are deleted at a time.
const deleting = 8

// Delete implements [fleet.Provider]. It returns when Compute Engine has accepted the
// deletions. An instance without a zone is looked for.
func (p *Provider) Delete(ctx context.Context, pool *capacity.Pool, instances []fleet.Instance) map[string]error {
	failed := map[string]error{}
	all := func(err error) map[string]error {
		for _, i := range instances {
			failed[i.ID] = err
		}
		return failed
	}
	service, m, err := p.of(pool)
	if err != nil {
		return all(err)
	}
	instances, err = p.locate(ctx, pool, instances)
	if err != nil {
		return all(err)
	}
	var mu sync.Mutex
	var running sync.WaitGroup
	slots := make(chan struct{}, deleting)
	for _, i := range instances {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			// A fixed id would return the result of an earlier deletion that failed.
			id := uuid.NewString()
			_, err := call(ctx, p, func(ctx context.Context) (*compute.Operation, error) {
				return service.Instances.Delete(m.s.Project, i.Zone, i.ID).RequestId(id).Context(ctx).Do()
			})
			if err != nil && !isGone(err) {
				mu.Lock()
				failed[i.ID] = fmt.Errorf("delete instance %s: %w", i.ID, err)
				mu.Unlock()
				return
			}
			p.forget(i.ID)
		})
	}
	running.Wait()
	return failed
}

func isGone(err error) bool { return hasStatus(err, http.StatusNotFound) }

func hasStatus(err error, status int) bool {
	answer, ok := errors.AsType[*googleapi.Error](err)
	return ok && answer.Code == status
}

// locate returns the instances with their zones, without those that are gone.
func (p *Provider) locate(ctx context.Context, pool *capacity.Pool, instances []fleet.Instance) ([]fleet.Instance, error) {
	if !slices.ContainsFunc(instances, func(i fleet.Instance) bool { return i.Zone == "" }) {
		return instances, nil
	}
	known, err := p.List(ctx, pool)
	if err != nil {
		return nil, err
	}
	var found []fleet.Instance
	for _, i := range instances {
		at := slices.IndexFunc(known, func(k fleet.Instance) bool { return k.ID == i.ID && k.State != fleet.InstanceEnded })
		switch {
		case i.Zone != "":
			found = append(found, i)
		case at >= 0:
			found = append(found, known[at])
		}
	}
	return found, nil
}
