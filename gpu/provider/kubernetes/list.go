package kubernetes

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/models/capacity"
)

const (
	pageSize = 500
	// mostPages bounds a list: a pool has at most 10,000 workers, and pods that have ended.
	mostPages = 60
	// mostLists is how often a list begins again because the cluster forgot its version between two pages.
	mostLists = 3
	// stuckAfter is how long a pod may outlive its grace period before that is reported.
	stuckAfter = 2 * time.Minute
)

// list is the pods of a pool in one version of the cluster.
type list struct {
	pods    []*pod
	version string
	now     time.Time // by the cluster's clock
}

func selector(labels map[string]string) string {
	return labelPool + "=" + labels[labelPool] + "," + labelCluster + "=" + labels[labelCluster]
}

// list reads all pods with the labels, or returns an error. All pages are of one version. If the cluster forgets it
// meanwhile, the list begins again.
func (on *connection) list(ctx context.Context, labels map[string]string) (*list, error) {
	var err error
	for range mostLists {
		var l *list
		if l, err = on.pages(ctx, labels); !is(err, http.StatusGone) {
			return l, err
		}
	}
	return nil, err
}

func (on *connection) pages(ctx context.Context, labels map[string]string) (*list, error) {
	l := &list{}
	next := ""
	for range mostPages {
		var page struct {
			Metadata struct{ ResourceVersion, Continue string }
			Items    []*pod
		}
		query := url.Values{"labelSelector": {selector(labels)}, "limit": {strconv.Itoa(pageSize)}}
		if next != "" {
			query.Set("continue", next)
		}
		now, err := on.do(ctx, call{method: http.MethodGet, path: on.path("pods"), query: query, kind: "PodList"}, &page)
		if err != nil {
			return nil, err
		}
		if l.version == "" {
			l.version, l.now = page.Metadata.ResourceVersion, now
		}
		for _, one := range page.Items {
			if one == nil || one.Metadata.Name == "" || one.Metadata.UID == "" {
				return nil, fleet.Refuse(fleet.Transient, "the list of Kubernetes has a pod without a name")
			}
			if one.stranger(labels) == "" {
				l.pods = append(l.pods, one)
			}
		}
		if next = page.Metadata.Continue; next == "" {
			return l, nil
		}
	}
	return nil, fleet.Refuse(fleet.Transient, "there are more than %d pods of this pool: delete those that have ended", mostPages*pageSize)
}

// List implements [fleet.Provider]. It deletes the pods that it gives up, because no node has room for them or their
// image cannot be had, and those that ended and of which the scaler has heard. Those that were given up or taken away
// remain listed as ended for ten minutes.
func (p *Provider) List(ctx context.Context, pool *capacity.Pool) ([]fleet.Instance, error) {
	on, s, err := p.of(pool)
	if err != nil {
		return nil, err
	}
	labels := p.config.labels(pool)
	l, err := on.list(ctx, labels)
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	m := p.remember(pool)
	if version, unknown := m.vanished(l); len(unknown) > 0 {
		m.taken(on.history(ctx, labels, version, unknown), l.now)
	}
	var all []fleet.Instance
	var over []*ending
	for _, one := range l.pods {
		i := one.instance(l.now, m.before(one), s)
		if e := m.over(one, &i, l.now); e != nil {
			e.at = len(all)
			over = append(over, e)
		}
		all = append(all, i)
		if one.stuck(l.now) {
			p.release(ctx, on, m, one)
		}
	}
	each(over, func(e *ending) {
		if gone := m.ended(e, on.deletePod(ctx, e.pod, farewell)); !gone && e.boots {
			// It was scheduled just now, or nobody knows. The next list tells.
			all[e.at].State, all[e.at].Err = fleet.InstanceBooting, nil
		}
	})
	all = append(all, m.fated(l)...)
	m.keep(l, all)
	return all, nil
}

// stuck reports whether a pod should have ended a while ago: its node does not say that it has.
func (p *pod) stuck(now time.Time) bool {
	// The deletion timestamp is when the grace period ends.
	return p.Metadata.DeletionTimestamp != nil && now.Sub(*p.Metadata.DeletionTimestamp) > stuckAfter
}

// release ends a pod that is stuck, if the cluster has no such node any more: then nothing can run on it. A cluster does
// so itself, later. Without the right to read nodes, or while the node exists, its agent may still run.
func (p *Provider) release(ctx context.Context, on *connection, m *memory, one *pod) {
	node, err := one.Spec.NodeName, error(nil)
	if node != "" {
		_, err = on.do(ctx, call{method: http.MethodGet, path: "/api/v1/nodes/" + url.PathEscape(node), kind: "Node"}, &struct{}{})
	}
	gone := node == "" || is(err, http.StatusNotFound)
	if m.report(one) {
		slog.WarnContext(ctx, "a pod does not end: its node does not confirm it", "pod", one.Metadata.Name, "node", node, "node gone", gone,
			"since", *one.Metadata.DeletionTimestamp)
	}
	if !gone {
		return
	}
	if err := on.deletePod(ctx, one, 0); err != nil {
		slog.WarnContext(ctx, "a pod whose node is gone could not be ended", "pod", one.Metadata.Name, "error", err)
	}
}
