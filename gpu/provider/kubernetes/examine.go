package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/reelay/reelay/features/doctor"
	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/models/capacity"
)

// Examiner checks whether the pools of the provider can have pods. It creates nothing.
type Examiner struct {
	Provider *Provider
	Pools    []*capacity.Pool
}

var _ doctor.Examiner = (*Examiner)(nil)

// Examine returns what each check found, for each pool of the provider. A check that needs one that failed is left out.
func (e *Examiner) Examine(ctx context.Context) []doctor.Finding {
	var all []doctor.Finding
	for _, pool := range e.Pools {
		if pool.Provider == Name {
			x := &examined{pool: pool}
			x.examine(ctx, e.Provider)
			all = append(all, x.findings...)
		}
	}
	return all
}

// examined is one pool that is being examined.
type examined struct {
	pool     *capacity.Pool
	findings []doctor.Finding
}

func (x *examined) examine(ctx context.Context, p *Provider) {
	on, s, err := p.of(x.pool)
	if fleet.ClassOf(err) == fleet.Invalid {
		x.add("kubernetes-settings", "The pool's settings are valid.", err, "Correct the pool, and apply it again.")
		return
	}
	if err == nil {
		_, err = on.list(ctx, p.config.labels(x.pool))
	}
	if !x.add("kubernetes-access", "The API server accepts the token, and lists the pods.", err,
		"Run control in a pod whose service account has the Role of docs/operators/kubernetes.md, or set REELAY_KUBERNETES_URL, "+
			"REELAY_KUBERNETES_TOKEN_FILE and REELAY_KUBERNETES_CA_FILE.") {
		return
	}
	x.add("kubernetes-rights", "The service account has the rights that control needs in the namespace "+on.namespace+".", on.lacks(ctx, s.Template),
		"Give control's service account the Role of docs/operators/kubernetes.md.")
	b, err := p.blueprint(ctx, on, x.pool, s)
	if !x.add("kubernetes-template", "The PodTemplate "+s.Template+" exists, and an agent can run in it.", err,
		"Ask the administrator of the cluster to write it: kubectl -n "+on.namespace+" edit podtemplate "+s.Template) {
		return
	}
	x.add("kubernetes-pod", "The API server would accept a pod of the pool.", on.rehearse(ctx, b),
		"Correct what the API server says of the template, the quota of the namespace, or its policies.")
}

// add adds a finding, and reports whether the check passed. A check that only failed in passing is unknown, not broken.
func (x *examined) add(check, holds string, err error, fix string) bool {
	f := doctor.Finding{Check: check, Level: doctor.LevelOK, Holds: "Pool " + x.pool.Name + ": " + holds}
	if err != nil {
		f.Level, f.Found, f.Matters, f.Fix = doctor.LevelBroken, err.Error(), "The pool gets no pods.", fix
		if fleet.ClassOf(err) == fleet.Transient {
			f.Level, f.Matters, f.Fix = doctor.LevelUnknown, "It could not be checked.", "Run the doctor again."
		}
	}
	x.findings = append(x.findings, f)
	return err == nil
}

// right is what a Role allows.
type right struct{ verb, group, resource, part string }

func (r right) String() string {
	if r.part != "" {
		return r.verb + " " + r.resource + "/" + r.part
	}
	return r.verb + " " + r.resource
}

// rights are what the provider's calls need. To read nodes is not among them: see release.
var rights = []right{
	{"get", "", "podtemplates", ""}, {"create", "", "pods", ""}, {"get", "", "pods", ""}, {"list", "", "pods", ""},
	{"watch", "", "pods", ""}, {"delete", "", "pods", ""}, {"create", "", "pods", "eviction"},
}

// lacks returns an error that names the rights that the service account does not have. A Role may name the templates.
func (on *connection) lacks(ctx context.Context, template string) error {
	var missing []string
	for _, r := range rights {
		name := ""
		if r.resource == "podtemplates" {
			name = template
		}
		var answer struct{ Status struct{ Allowed bool } }
		_, err := on.do(ctx, call{method: http.MethodPost, path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body: object{
			"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": object{"resourceAttributes": object{
				"namespace": on.namespace, "verb": r.verb, "group": r.group, "resource": r.resource, "subresource": r.part, "name": name,
			}},
		}, kind: "SelfSubjectAccessReview"}, &answer)
		if err != nil {
			return fmt.Errorf("ask for the right to %s: %w", r, err)
		}
		if !answer.Status.Allowed {
			missing = append(missing, r.String())
		}
	}
	if len(missing) > 0 {
		return &fleet.ProviderError{Class: fleet.Permission, Err: errors.New("these are missing: " + strings.Join(missing, ", "))}
	}
	return nil
}

// rehearse asks the API server to check a pod as if it created it: its validity, quotas, and policies of the cluster.
func (on *connection) rehearse(ctx context.Context, b *blueprint) error {
	made, err := b.pod(b.pool.Name + "-doctor")
	if err != nil {
		return err
	}
	_, err = on.do(ctx, call{method: http.MethodPost, path: on.path("pods"), query: url.Values{"dryRun": {"All"}}, body: made,
		kind: "Pod"}, &pod{})
	return err
}
