package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"sync"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
)

// Name is the provider's name, in pools and at registration.
const Name = "kubernetes"

// Config says how the API server is called and what agents are told. Without a URL, the service account of the pod counts
// in which this process runs.
type Config struct {
	// URL is the address of the API server, such as https://10.0.0.1:6443.
	URL string
	// TokenFile has the token of a service account, and CAFile the certificates of the authority that signed the API
	// server's. Both are read again when they change. Without CAFile, the system's authorities are trusted.
	TokenFile, CAFile string
	// Namespace has the templates and the pods. The default is that of the service account.
	Namespace string
	// Cluster names this installation of Reelay in the labels of its pods. The default is reelay.
	Cluster string
	// Endpoint is the URL of the API for agents whose template does not set REELAY_ENDPOINT.
	Endpoint string
	// CreateLimit is how long a Create takes at most. The default is 20 seconds.
	CreateLimit time.Duration
	// CallTimeout is how long one call takes at most. The default is 10 seconds.
	CallTimeout time.Duration
	// Retry is the pause before the first repetition of a call that failed in passing. The default is 200 milliseconds.
	Retry time.Duration

	// account is the folder of the pod's service account, if it is not the usual one.
	account string
}

// Provider implements [fleet.Preemptor]. It connects at the first call. All methods can be called at the same time.
type Provider struct {
	config Config

	mu     sync.Mutex
	on     *connection
	memory map[models.PoolID]*memory
}

var _ fleet.Preemptor = (*Provider)(nil)

var namespaceName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// IsNamespace reports whether a name can be that of a namespace.
func IsNamespace(name string) bool { return namespaceName.MatchString(name) }

// New returns a provider. It does not call the API server.
func New(config Config) *Provider {
	if config.Cluster == "" {
		config.Cluster = "reelay"
	}
	if config.CreateLimit == 0 {
		config.CreateLimit = 20 * time.Second
	}
	if config.CallTimeout == 0 {
		config.CallTimeout = 10 * time.Second
	}
	if config.Retry == 0 {
		config.Retry = 200 * time.Millisecond
	}
	return &Provider{config: config, memory: map[models.PoolID]*memory{}}
}

// CreateLimit is how long a Create takes at most.
func (p *Provider) CreateLimit() time.Duration { return p.config.CreateLimit }

// of returns the connection and the settings of a pool.
func (p *Provider) of(pool *capacity.Pool) (*connection, *Settings, error) {
	s, err := readSettings(pool)
	if err != nil {
		return nil, nil, &fleet.ProviderError{Class: fleet.Invalid, Err: err}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.on == nil {
		on, err := p.config.connect()
		if err != nil {
			return nil, nil, err
		}
		p.on = on
	}
	return p.on, s, nil
}

// blueprint reads the template of a pool.
func (p *Provider) blueprint(ctx context.Context, on *connection, pool *capacity.Pool, s *Settings) (*blueprint, error) {
	template, err := on.podTemplate(ctx, s.Template)
	if err != nil {
		return nil, err
	}
	return p.config.newBlueprint(pool, s.Template, template)
}

// Create implements [fleet.Provider]. A pod of an instance's name is not made twice, so a call whose answer was lost can
// be repeated. What becomes of a pod that the cluster has accepted is for List to say.
func (p *Provider) Create(ctx context.Context, pool *capacity.Pool, _ string, ids []string) []fleet.Created {
	ctx, cancel := context.WithTimeout(ctx, p.config.CreateLimit)
	defer cancel()
	on, s, err := p.of(pool)
	if err != nil {
		return fleet.Undone(ids, err)
	}
	b, err := p.blueprint(ctx, on, pool, s)
	if err != nil {
		return fleet.Undone(ids, err)
	}
	all := fleet.Undone(ids, nil)
	var places []int
	for i := range all {
		places = append(places, i)
	}
	each(places, func(i int) {
		if err := p.create(ctx, on, b, ids[i]); err != nil {
			all[i].Err = fmt.Errorf("create the pod %s: %w", ids[i], err)
		}
	})
	return all
}

func (p *Provider) create(ctx context.Context, on *connection, b *blueprint, id string) error {
	made, err := b.pod(id)
	if err != nil {
		return err
	}
	_, err = on.do(ctx, call{method: http.MethodPost, path: on.path("pods"), body: made, kind: "Pod"}, &pod{})
	if refused, ok := errors.AsType[*answerError](err); !ok || refused.status != http.StatusConflict || refused.reason != "AlreadyExists" {
		return err
	}
	there, err := on.pod(ctx, id)
	if is(err, http.StatusNotFound) {
		return fleet.Refuse(fleet.Transient, "a pod of this name has just ended")
	}
	if err != nil {
		return err
	}
	if why := there.stranger(p.config.labels(b.pool)); why != "" {
		return fleet.Refuse(fleet.Invalid, "there is a pod of this name that does not belong to the pool: %s", why)
	}
	return nil
}

// pod reads a pod.
func (on *connection) pod(ctx context.Context, id string) (*pod, error) {
	var one pod
	_, err := on.do(ctx, call{method: http.MethodGet, path: on.path("pods", id), kind: "Pod"}, &one)
	return &one, err
}

// Delete implements [fleet.Provider]. The agents have the time for their last calls, and no notice: their workers have
// left, or have been given up. A pod that somebody else has taken over is not deleted, and no error.
func (p *Provider) Delete(ctx context.Context, pool *capacity.Pool, instances []fleet.Instance) map[string]error {
	failed := map[string]error{}
	on, _, err := p.of(pool)
	if err != nil {
		for _, i := range instances {
			failed[i.ID] = err
		}
		return failed
	}
	var mu sync.Mutex
	each(instances, func(i fleet.Instance) {
		if err := p.delete(ctx, on, pool, i.ID); err != nil {
			mu.Lock()
			defer mu.Unlock()
			failed[i.ID] = fmt.Errorf("delete the pod %s: %w", i.ID, err)
		}
	})
	return failed
}

// delete deletes a pod in the version in which it is known to be the pool's.
func (p *Provider) delete(ctx context.Context, on *connection, pool *capacity.Pool, id string) error {
	for try := 1; ; try++ {
		one, err := on.pod(ctx, id)
		if is(err, http.StatusNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if one.stranger(p.config.labels(pool)) != "" || one.Metadata.DeletionTimestamp != nil {
			return nil
		}
		p.remember(pool).order(id)
		if err = on.deletePod(ctx, one, farewell); !is(err, http.StatusConflict) || try == tries {
			return err
		}
	}
}

// deletePod deletes a pod if it is still in this version: 409 means that it is not. A pod that is gone is no error.
func (on *connection) deletePod(ctx context.Context, one *pod, grace time.Duration) error {
	_, err := on.do(ctx, call{method: http.MethodDelete, path: on.path("pods", one.Metadata.Name), body: object{
		"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": int(grace.Seconds()),
		"preconditions": object{"uid": one.Metadata.UID, "resourceVersion": one.Metadata.ResourceVersion},
	}}, nil)
	if is(err, http.StatusNotFound) {
		return nil
	}
	return err
}

// Preempt implements [fleet.Preemptor]: it evicts the pod, as the cluster does, with the notice as its grace period. A
// PodDisruptionBudget can forbid that now.
func (p *Provider) Preempt(ctx context.Context, pool *capacity.Pool, instance fleet.Instance, notice time.Duration) error {
	on, _, err := p.of(pool)
	if err != nil {
		return err
	}
	one, err := on.pod(ctx, instance.ID)
	switch {
	case is(err, http.StatusNotFound):
		return fleet.ErrNoInstance
	case err != nil:
		return fmt.Errorf("preempt the pod %s: %w", instance.ID, err)
	case one.stranger(p.config.labels(pool)) != "", one.Metadata.DeletionTimestamp != nil, one.Status.Phase == "Succeeded",
		one.Status.Phase == "Failed":
		return fleet.ErrNoInstance
	}
	_, err = on.do(ctx, call{method: http.MethodPost, path: on.path("pods", instance.ID, "eviction"), body: object{
		"apiVersion": "policy/v1", "kind": "Eviction", "metadata": object{"name": instance.ID},
		"deleteOptions": object{"gracePeriodSeconds": max(1, int(notice.Seconds())), "preconditions": object{"uid": one.Metadata.UID}},
	}}, nil)
	switch {
	case is(err, http.StatusNotFound):
		return fleet.ErrNoInstance
	case err != nil:
		return fmt.Errorf("preempt the pod %s: %w", instance.ID, err)
	}
	return nil
}
