package kubernetes

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/models/capacity"
)

// Labels that tie a pod to the pool and to the installation of Reelay.
const (
	labelPool    = "reelay-pool"
	labelCluster = "reelay-cluster"
)

// agentContainer is the name of the container with the agent in a template.
const agentContainer = "agent"

const (
	// farewell is how long the last calls of an agent take: it releases its job, and deregisters.
	farewell = 10 * time.Second
	// leastGrace leaves ten seconds to save a checkpoint.
	leastGrace = 20 * time.Second
	// usualGrace is terminationGracePeriodSeconds of a pod that has none.
	usualGrace = 30 * time.Second
)

const (
	keyVariable      = "REELAY_API_KEY"
	endpointVariable = "REELAY_ENDPOINT"
)

var labelValue = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$`)

// Label returns text as the value of a label. Text that cannot be one is replaced by its digest.
func Label(text string) string {
	if labelValue.MatchString(text) {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + hex.EncodeToString(sum[:16])
}

// labels returns the labels of the pool's pods.
func (c *Config) labels(pool *capacity.Pool) map[string]string {
	return map[string]string{labelPool: Label(string(pool.ID)), labelCluster: Label(c.Cluster)}
}

// object is an object of Kubernetes, with all its fields: also those of versions that are newer than this code.
type object = map[string]any

// podTemplate reads the template of a pool.
func (on *connection) podTemplate(ctx context.Context, name string) (object, error) {
	var raw json.RawMessage
	_, err := on.do(ctx, call{method: http.MethodGet, path: on.path("podtemplates", name), kind: "PodTemplate"}, &raw)
	if is(err, http.StatusNotFound) {
		return nil, fleet.Refuse(fleet.Invalid, "there is no PodTemplate %s in the namespace %s: write it, or change settings.template",
			name, on.namespace)
	}
	if err != nil {
		return nil, fmt.Errorf("read the PodTemplate %s: %w", name, err)
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber() // numbers stay as they are
	var whole struct{ Template object }
	if err := decoder.Decode(&whole); err != nil {
		return nil, fleet.Refuse(fleet.Transient, "read the PodTemplate %s: %w", name, err)
	}
	return whole.Template, nil
}

// blueprint makes the pods of a pool.
type blueprint struct {
	config *Config
	pool   *capacity.Pool
	// template is the pod template, which is not changed.
	template object
	grace    time.Duration
	// environment are the variables of all agents of the pool.
	environment map[string]string
}

// newBlueprint checks a template. Its errors are INVALID: the administrator of the cluster must change the template.
func (c *Config) newBlueprint(pool *capacity.Pool, name string, template object) (*blueprint, error) {
	b := &blueprint{config: c, pool: pool, template: template}
	wrong := func(format string, args ...any) (*blueprint, error) {
		return nil, fleet.Refuse(fleet.Invalid, "the PodTemplate %s "+format, append([]any{name}, args...)...)
	}
	spec, _ := template["spec"].(object)
	agent := b.agent(spec)
	if agent == nil {
		return wrong("has no container with the name %s: the agent's must have it", agentContainer)
	}
	b.grace = usualGrace
	if seconds, given := spec["terminationGracePeriodSeconds"].(json.Number); given {
		n, _ := seconds.Int64()
		b.grace = time.Duration(n) * time.Second
	}
	if b.grace < leastGrace {
		return wrong("has a terminationGracePeriodSeconds of %d: it must be at least %d, of which the agent's last calls need %d. "+
			"The rest is its notice, for a checkpoint and its upload", int(b.grace.Seconds()), int(leastGrace.Seconds()), int(farewell.Seconds()))
	}
	switch has, plain := b.variable(agent, keyVariable); {
	case plain:
		return wrong("has the agent's key as plain text: put it into a Secret, and name that with secretKeyRef, envFrom or a volume")
	case !has && agent["envFrom"] == nil:
		if has, _ := b.variable(agent, keyVariable+"_FILE"); !has {
			return wrong("gives the agent no key: set %s by secretKeyRef or envFrom, or %s_FILE to the file of a Secret", keyVariable, keyVariable)
		}
	}
	b.environment = map[string]string{
		"REELAY_AGENT_NOTICE": fmt.Sprintf("%ds", int((b.grace - farewell).Seconds())),
		"REELAY_AGENT_GRACE":  fmt.Sprintf("%ds", int(b.grace.Seconds())),
	}
	if has, _ := b.variable(agent, endpointVariable); !has {
		if c.Endpoint == "" {
			return wrong("does not set %s, and control has no REELAY_PUBLIC_URL: agents need the address of the API", endpointVariable)
		}
		b.environment[endpointVariable] = c.Endpoint
	}
	return b, nil
}

// agent returns the container of the agent in a spec, or nil.
func (*blueprint) agent(spec object) object {
	containers, _ := spec["containers"].([]any)
	for _, one := range containers {
		if container, _ := one.(object); container["name"] == agentContainer {
			return container
		}
	}
	return nil
}

// variable reports whether a container sets a variable, and whether as plain text.
func (*blueprint) variable(container object, name string) (set, plain bool) {
	all, _ := container["env"].([]any)
	for _, one := range all {
		if variable, _ := one.(object); variable["name"] == name {
			return true, variable["valueFrom"] == nil
		}
	}
	return false, false
}

// pod returns the pod of an instance.
func (b *blueprint) pod(id string) (object, error) {
	copied, err := copyOf(b.template)
	if err != nil {
		return nil, err
	}
	metadata, _ := copied["metadata"].(object)
	labels, _ := metadata["labels"].(object)
	if labels == nil {
		labels = object{}
	}
	for name, value := range b.config.labels(b.pool) {
		labels[name] = value
	}
	kept := object{"name": id, "labels": labels}
	if annotations := metadata["annotations"]; annotations != nil {
		kept["annotations"] = annotations
	}
	spec := copied["spec"].(object)
	spec["restartPolicy"] = "Never" // a new agent is a new machine
	agent := b.agent(spec)
	agent["env"] = b.variables(agent, id)
	// The last lines of an agent that failed are its cause in `reelay pools show`.
	agent["terminationMessagePolicy"] = "FallbackToLogsOnError"
	return object{"apiVersion": "v1", "kind": "Pod", "metadata": kept, "spec": spec}, nil
}

// variables returns the variables of the agent: the template's, and those of Reelay, which replace others of the name.
func (b *blueprint) variables(agent object, id string) []any {
	ours := maps.Clone(b.environment)
	arguments := fleet.AgentArguments(Name, b.pool, id)
	for i := 0; i+1 < len(arguments); i += 2 {
		flag := strings.TrimPrefix(arguments[i], "--")
		ours["REELAY_AGENT_"+strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))] = arguments[i+1]
	}
	given, _ := agent["env"].([]any)
	var all []any
	for _, one := range given {
		variable, _ := one.(object)
		name, _ := variable["name"].(string)
		if _, replaced := ours[name]; !replaced {
			all = append(all, one)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(ours)) {
		// $(NAME) would be replaced by the value of another variable, such as the key; $$ is a $.
		all = append(all, object{"name": name, "value": strings.ReplaceAll(ours[name], "$", "$$")})
	}
	return all
}

func copyOf(template object) (object, error) {
	data, err := json.Marshal(template)
	if err != nil {
		return nil, fmt.Errorf("copy the template: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var copied object
	if err := decoder.Decode(&copied); err != nil {
		return nil, fmt.Errorf("copy the template: %w", err)
	}
	return copied, nil
}
