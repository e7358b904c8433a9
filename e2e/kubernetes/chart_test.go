package kubernetes_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	cluster "github.com/reelay/reelay/e2e/kubernetes"
	"github.com/reelay/reelay/features/doctor"
	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/gpu/provider/kubernetes"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

// releaseNamespace is the namespace for which deploy/helm/render renders the chart.
const releaseNamespace = "video"

// helm does with the objects of the chart what Helm does, on a real API server.
type helm struct {
	*cluster.Cluster

	t      *testing.T
	render string
	kinds  map[string]resource // by apiVersion and kind
}

// resource is where the objects of a kind are.
type resource struct {
	path       string // of those in the namespace
	namespaced bool
	native     bool // its fields merge as those of Kubernetes do
}

// newHelm starts a cluster that has what the chart with all its parts needs. Its namespace admits pods of the strictest of
// the Pod Security Standards only, and warns of templates of others.
func newHelm(t *testing.T) *helm {
	t.Helper()
	h := &helm{Cluster: cluster.Start(t).In(releaseNamespace), t: t, render: filepath.Join(t.TempDir(), "render"),
		kinds: map[string]resource{}}
	build := exec.CommandContext(t.Context(), "go", "-C", "../../deploy/helm/render", "build", "-o", h.render, ".")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	h.Must("POST", "/api/v1/namespaces", cluster.Object{"metadata": cluster.Object{"name": releaseNamespace, "labels": cluster.Object{
		"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/warn": "restricted"}}})
	// A controller makes it in a cluster.
	h.Must("POST", h.Path("serviceaccounts"), cluster.Object{"metadata": cluster.Object{"name": "default"}})
	h.Must("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", cluster.Object{"metadata": cluster.Object{"name": "low"}, "value": -1})
	h.Must("POST", "/apis/node.k8s.io/v1/runtimeclasses", cluster.Object{"metadata": cluster.Object{"name": "nvidia"}, "handler": "nvidia"})
	h.define("monitoring.coreos.com", "ServiceMonitor", "servicemonitors", serviceMonitor)
	h.define("external-secrets.io", "ExternalSecret", "externalsecrets", externalSecret)
	return h
}

// The schemas of the kinds that other projects define have the fields that the chart uses, with the values that those projects
// document. A field that they do not have is refused.
const (
	serviceMonitor = `{"type": "object", "required": ["selector", "endpoints"], "properties": {
		"jobLabel": {"type": "string"},
		"selector": {"type": "object", "properties": {
			"matchLabels": {"type": "object", "additionalProperties": {"type": "string"}},
			"matchExpressions": {"type": "array", "items": {"type": "object", "required": ["key", "operator"], "properties": {
				"key": {"type": "string"}, "operator": {"type": "string"}, "values": {"type": "array", "items": {"type": "string"}}}}}}},
		"endpoints": {"type": "array", "items": {"type": "object", "properties": {
			"port": {"type": "string"}, "path": {"type": "string"},
			"interval": {"type": "string", "pattern": "^(0|([0-9]+y)?([0-9]+w)?([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?)$"},
			"authorization": {"type": "object", "properties": {"type": {"type": "string"}, "credentials": {"type": "object", "required": ["key"],
				"properties": {"name": {"type": "string"}, "key": {"type": "string"}}}}},
			"relabelings": {"type": "array", "items": {"type": "object", "properties": {
				"targetLabel": {"type": "string"}, "replacement": {"type": "string"}}}}}}}}}`
	externalSecret = `{"type": "object", "properties": {
		"refreshInterval": {"type": "string"},
		"secretStoreRef": {"type": "object", "properties": {
			"kind": {"type": "string", "enum": ["SecretStore", "ClusterSecretStore"]},
			"name": {"type": "string", "minLength": 1, "maxLength": 253}}},
		"target": {"type": "object", "properties": {
			"name": {"type": "string", "minLength": 1, "maxLength": 253},
			"creationPolicy": {"type": "string", "enum": ["Owner", "Orphan", "Merge", "None"]},
			"deletionPolicy": {"type": "string", "enum": ["Delete", "Merge", "Retain"]}}},
		"dataFrom": {"type": "array", "items": {"type": "object", "properties": {
			"extract": {"type": "object", "required": ["key"], "properties": {"key": {"type": "string"}}}}}}}}`
)

// define makes a kind of another project known to the cluster, with a schema of its spec.
func (h *helm) define(group, kind, plural, schema string) {
	h.t.Helper()
	var spec cluster.Object
	require.NoError(h.t, json.Unmarshal([]byte(schema), &spec))
	h.Must("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", cluster.Object{
		"metadata": cluster.Object{"name": plural + "." + group},
		"spec": cluster.Object{
			"group": group, "scope": "Namespaced", "names": cluster.Object{"kind": kind, "plural": plural, "singular": strings.ToLower(kind)},
			"versions": []cluster.Object{{"name": "v1", "served": true, "storage": true, "schema": cluster.Object{
				"openAPIV3Schema": cluster.Object{"type": "object", "properties": cluster.Object{"spec": spec}}}}},
		},
	})
	testrun.Eventually(h.t, kind+" is served", func() bool {
		status, _ := h.Do("GET", "/apis/"+group+"/v1/namespaces/"+releaseNamespace+"/"+plural, nil)
		return status == http.StatusOK
	})
}

// resource returns where the objects of a kind are, as the API server says.
func (h *helm) resource(version, kind string) resource {
	h.t.Helper()
	if found, ok := h.kinds[version+" "+kind]; ok {
		return found
	}
	root := "/apis/" + version
	if !strings.Contains(version, "/") {
		root = "/api/" + version
	}
	for _, one := range h.Must("GET", root, nil)["resources"].([]any) {
		r := one.(cluster.Object)
		if name := r["name"].(string); r["kind"] == kind && !strings.Contains(name, "/") {
			group, _, _ := strings.Cut(version, "/")
			found := resource{path: root + "/namespaces/" + releaseNamespace + "/" + name, namespaced: r["namespaced"].(bool),
				native: !strings.Contains(group, ".") || strings.HasSuffix(group, ".k8s.io")}
			h.kinds[version+" "+kind] = found
			return found
		}
	}
	require.FailNow(h.t, "the API server has no "+kind+" of "+version)
	return resource{}
}

// object is an object of the chart.
type object struct {
	cluster.Object
	resource

	name string
	hook bool
	// weight is the order of hooks.
	weight int
}

func (o *object) id() string { return fmt.Sprint(o.Object["kind"], " ", o.name) }

// chart is a version of the chart.
type chart struct{ folder string }

// current is the chart as it is.
var current = chart{"../../deploy/helm"}

// next returns the chart with the number of a later release.
func (h *helm) next() chart {
	h.t.Helper()
	to := h.t.TempDir()
	require.NoError(h.t, os.CopyFS(filepath.Join(to, "templates"), os.DirFS(filepath.Join(current.folder, "templates"))))
	for _, name := range []string{"Chart.yaml", "values.yaml", "values.schema.json"} {
		text, err := os.ReadFile(filepath.Join(current.folder, name))
		require.NoError(h.t, err)
		if name == "Chart.yaml" {
			later := regexp.MustCompile(`(?m)^(version|appVersion): .*$`).ReplaceAll(text, []byte("$1: 7.8.9"))
			require.NotEqual(h.t, string(text), string(later))
			text = later
		}
		require.NoError(h.t, os.WriteFile(filepath.Join(to, name), text, 0o600))
	}
	return chart{to}
}

// objects renders a chart with values: the hooks first, by their weight.
func (h *helm) objects(of chart, values ...string) []*object {
	h.t.Helper()
	args := []string{of.folder}
	for i, text := range values {
		file := filepath.Join(h.t.TempDir(), fmt.Sprintf("values-%d.yaml", i))
		require.NoError(h.t, os.WriteFile(file, []byte(text), 0o600))
		args = append(args, file)
	}
	cmd := exec.CommandContext(h.t.Context(), h.render, args...)
	cmd.Stderr = new(strings.Builder)
	text, err := cmd.Output()
	require.NoError(h.t, err, cmd.Stderr)
	var rendered []cluster.Object
	require.NoError(h.t, json.Unmarshal(text, &rendered))
	var all []*object
	for _, one := range rendered {
		metadata := one["metadata"].(cluster.Object)
		o := &object{Object: one, name: metadata["name"].(string), resource: h.resource(one["apiVersion"].(string), one["kind"].(string))}
		require.True(h.t, o.namespaced, "%s is not in the namespace of the release", o.id())
		require.NotContains(h.t, metadata, "namespace", "Helm says it")
		annotations, _ := metadata["annotations"].(cluster.Object)
		if hook, ok := annotations["helm.sh/hook"]; ok {
			require.Equal(h.t, "pre-install,pre-upgrade", hook, o.id())
			require.Contains(h.t, annotations["helm.sh/hook-delete-policy"], "before-hook-creation", o.id())
			o.hook = true
			o.weight, err = strconv.Atoi(annotations["helm.sh/hook-weight"].(string))
			require.NoError(h.t, err)
		}
		all = append(all, o)
	}
	slices.SortStableFunc(all, func(a, b *object) int {
		switch {
		case a.hook && b.hook:
			return cmp.Compare(a.weight, b.weight)
		case a.hook:
			return -1
		case b.hook:
			return 1
		}
		return 0
	})
	return all
}

// way is how a version of Helm writes objects.
type way int

const (
	helm3 way = 3 // creates objects, and patches them
	helm4 way = 4 // applies them on the server
)

// write writes an object as Helm does: first as a rehearsal, then for real. The server must accept both without a warning.
func (h *helm) write(how way, o *object, patch cluster.Object) {
	h.t.Helper()
	for _, rehearsal := range []string{"dryRun=All&", ""} {
		query := "?" + rehearsal + "fieldValidation=Strict&fieldManager=helm"
		var answer cluster.Answer
		switch {
		case how == helm4:
			answer = h.Send("PATCH", o.path+"/"+o.name+query, cluster.ServerSide, o.Object)
		case patch == nil:
			answer = h.Send("POST", o.path+query, "application/json", o.Object)
		case o.native:
			answer = h.Send("PATCH", o.path+"/"+o.name+query, cluster.StrategicMerge, patch)
		default:
			answer = h.Send("PATCH", o.path+"/"+o.name+query, cluster.Merge, patch)
		}
		require.Less(h.t, answer.Status, 300, "%s %s: %v", o.id(), query, answer.Object["message"])
		require.Empty(h.t, answer.Warnings, "%s %s", o.id(), query)
	}
}

// patches returns the patches of Helm 3 from the objects of a release to those of the next, by id.
func (h *helm) patches(before map[string]*object, after []*object) map[string]cluster.Object {
	h.t.Helper()
	type versions struct{ Before, After, Current cluster.Object }
	var all []versions
	var ids []string
	found := map[string]cluster.Object{}
	for _, o := range after {
		was := before[o.id()]
		switch {
		case was == nil || o.hook:
		case o.native:
			ids = append(ids, o.id())
			all = append(all, versions{was.Object, o.Object, h.Must("GET", o.path+"/"+o.name, nil)})
		default:
			found[o.id()] = o.Object
		}
	}
	text, err := json.Marshal(all)
	require.NoError(h.t, err)
	cmd := exec.CommandContext(h.t.Context(), h.render, "-patch")
	cmd.Stdin, cmd.Stderr = bytes.NewReader(text), new(strings.Builder)
	out, err := cmd.Output()
	require.NoError(h.t, err, cmd.Stderr)
	var patches []cluster.Object
	require.NoError(h.t, json.Unmarshal(out, &patches))
	for i, id := range ids {
		found[id] = patches[i]
	}
	return found
}

func (h *helm) remove(o *object) {
	h.t.Helper()
	h.Must("DELETE", o.path+"/"+o.name, cluster.Object{"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"})
}

// release brings the cluster from the objects of a release to those of the next.
func (h *helm) release(how way, before, after []*object) {
	h.t.Helper()
	had := map[string]*object{}
	for _, o := range before {
		had[o.id()] = o
	}
	var patches map[string]cluster.Object
	if how == helm3 && len(before) > 0 && len(after) > 0 {
		patches = h.patches(had, after)
	}
	for _, o := range after {
		if o.hook && had[o.id()] != nil {
			h.remove(o)
		}
		h.write(how, o, patches[o.id()])
		delete(had, o.id())
	}
	for _, id := range slices.Sorted(maps.Keys(had)) {
		h.remove(had[id])
	}
}

// pods asks the server whether it admits the pods that controllers make of the objects.
func (h *helm) pods(all []*object) (admitted int) {
	h.t.Helper()
	for _, o := range all {
		template, _ := o.Object["template"].(cluster.Object) // of a PodTemplate
		if spec, ok := o.Object["spec"].(cluster.Object); ok && template == nil {
			template, _ = spec["template"].(cluster.Object)
		}
		if template == nil {
			continue
		}
		pod := maps.Clone(template)
		metadata := maps.Clone(template["metadata"].(cluster.Object))
		metadata["generateName"] = o.name + "-"
		pod["metadata"] = metadata
		answer := h.Send("POST", h.Path("pods")+"?dryRun=All&fieldValidation=Strict", "application/json", pod)
		require.Equal(h.t, http.StatusCreated, answer.Status, "%s: %v", o.id(), answer.Object["message"])
		require.Empty(h.t, answer.Warnings, o.id())
		admitted++
	}
	return admitted
}

func chartValues(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../deploy/helm/testdata/" + name + ".yaml")
	require.NoError(t, err)
	return string(text)
}

// TestChart installs the chart, upgrades it and takes it away as Helm does.
func TestChart(t *testing.T) {
	t.Parallel()
	h := newHelm(t)
	minimal, full := chartValues(t, "minimal"), chartValues(t, "full")
	next := h.next()

	type release struct {
		chart
		values []string
		pods   int
	}
	defaults := release{current, []string{minimal}, 3}
	everything := release{current, []string{minimal, full}, 5}
	for _, c := range []struct {
		name          string
		before, after release
	}{
		{"TheNextVersion", defaults, release{next, []string{minimal}, 3}},
		{"TheNextVersionOfEverything", everything, release{next, []string{minimal, full}, 5}},
		{"TurnsEverythingOn", defaults, everything},
		{"TurnsEverythingOff", everything, defaults},
		{"ChangesImagesAndNumbers", everything, release{current, []string{minimal, full, `
image: {repository: registry.example/reelay, tag: 2.0.0}
agentImage: {repository: registry.example/agent, tag: 2.0.0, pullPolicy: Always}
settings: {REELAY_RETENTION_JOBS_DAYS: "60", REELAY_RETENTION_EVENTS_DAYS: "7"}
secret: {name: other, s3Keys: false}
service: {port: 8080}
metrics: {open: false}
ingress: {tlsSecret: ""}
migrate: {timeoutSeconds: 60}
control: {replicas: 1, resources: {requests: {cpu: "1"}, limits: {memory: 2Gi}}}
agents:
  - {name: spot, gpus: 2, scratch: 20Gi}
  - {name: fixed, replicas: 4, pool: other, region: eu-2, gpuType: H100, gpus: 1, labels: {a: b}}
`}, 5}},
		{"ReplacesAutoscaling", defaults, release{current, []string{minimal, "api: {autoscaling: {enabled: false}, replicas: 3}"}, 3}},
		{"OpensAPort", defaults, release{current, []string{minimal, "{service: {type: LoadBalancer}, metrics: {open: false}}"}, 3}},
		{"LeavesOut", everything, release{current, []string{minimal, `
kubernetesProvider: {enabled: false}
networkPolicy: {enabled: false}
secret: {name: mine, s3Keys: false}
migrate: {enabled: false}
agents: [{name: "123"}]
`}, 3}},
	} {
		for _, how := range []way{helm3, helm4} {
			// One after the other, as they share the namespace.
			passed := t.Run(fmt.Sprint(c.name, "/Helm", how), func(t *testing.T) {
				h := *h
				h.t = t
				before, after := h.objects(c.before.chart, c.before.values...), h.objects(c.after.chart, c.after.values...)

				h.release(how, nil, before)
				require.Equal(t, c.before.pods, h.pods(before))
				h.release(how, before, after)
				require.Equal(t, c.after.pods, h.pods(after))

				for _, o := range after {
					h.Must("GET", o.path+"/"+o.name, nil)
				}
				// Again, as after a failed release.
				h.release(how, after, after)
				h.release(how, after, nil)
				for _, o := range slices.Concat(before, after) {
					status, _ := h.Do("GET", o.path+"/"+o.name, nil)
					require.Equal(t, http.StatusNotFound, status, o.id())
				}
			})
			if !passed {
				return // its objects are there
			}
		}
	}
}

// TestChartRights checks that the service account of the chart has the rights that the provider kubernetes uses, and no others.
func TestChartRights(t *testing.T) {
	t.Parallel()
	h := newHelm(t)
	objects := h.objects(current, chartValues(t, "minimal"), "agents: [{name: l4, gpus: 1, noticeSeconds: 60}]")
	h.release(helm4, nil, objects)
	h.Must("POST", h.Path("secrets"), cluster.Object{"metadata": cluster.Object{"name": "reelay"},
		"stringData": cluster.Object{"database-url": "x"}})
	token := filepath.Join(t.TempDir(), "token")
	h.Token(token, "reelay", time.Hour)

	// A proxy notes the calls that the provider makes.
	var mu sync.Mutex
	used := map[string]bool{}
	between := h.Between(func(r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if right := rightOf(r); right != "" {
			used[right] = true
		}
	}, func(int) {})
	provider := kubernetes.New(kubernetes.Config{URL: between.URL, TokenFile: token, CAFile: between.CAFile, Namespace: releaseNamespace,
		Endpoint: "http://reelay-api.video.svc"})
	pool := &capacity.Pool{ID: models.NewPoolID(), PoolSpec: capacity.PoolSpec{
		Name: "l4", Provider: kubernetes.Name, Region: "eu-1", GPUType: "L4", CapacityClass: models.CapacitySpot,
		Models: []string{"testcard"}, MaxWorkers: 4, Settings: []byte(`{"template": "l4"}`),
	}}

	t.Run("AreEnough", func(t *testing.T) {
		findings := (&kubernetes.Examiner{Provider: provider, Pools: []*capacity.Pool{pool}}).Examine(t.Context())
		require.Len(t, findings, 4)
		for _, f := range findings {
			require.Equal(t, doctor.LevelOK, f.Level, f)
		}
		for _, one := range provider.Create(t.Context(), pool, "r", []string{"l4-a", "l4-b"}) {
			require.NoError(t, one.Err)
		}
		for _, one := range provider.Create(t.Context(), pool, "r", []string{"l4-a"}) {
			require.NoError(t, one.Err, "again, after a lost answer")
		}
		list := func() map[string]fleet.Instance {
			all, err := provider.List(t.Context(), pool)
			require.NoError(t, err)
			byID := map[string]fleet.Instance{}
			for _, i := range all {
				byID[i.ID] = i
			}
			return byID
		}
		for _, id := range []string{"l4-a", "l4-b"} {
			h.Bind(id, "node-1")
			h.Status(id, cluster.Object{"phase": "Running"})
		}
		require.Len(t, list(), 2)
		pod := h.Must("GET", h.Path("pods", "l4-a"), nil)["spec"].(cluster.Object)
		require.Equal(t, false, pod["automountServiceAccountToken"], "the agent gets no token")
		require.NoError(t, provider.Preempt(t.Context(), pool, fleet.Instance{ID: "l4-a"}, 30*time.Second))
		h.End("l4-a")
		require.True(t, list()["l4-a"].Reclaimed)
		require.Empty(t, provider.Delete(t.Context(), pool, []fleet.Instance{{ID: "l4-b"}}))
		h.End("l4-b")
		require.NotContains(t, list(), "l4-b")
	})

	text, err := os.ReadFile(token)
	require.NoError(t, err)
	account := h.As(string(text))

	t.Run("AreAllUsed", func(t *testing.T) {
		answer := account.Must("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
			cluster.Object{"spec": cluster.Object{"namespace": releaseNamespace}})
		var given []string
		for _, one := range answer["status"].(cluster.Object)["resourceRules"].([]any) {
			var rule struct{ Verbs, APIGroups, Resources []string }
			text, err := json.Marshal(one)
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(text, &rule))
			for _, group := range rule.APIGroups {
				if strings.HasPrefix(group, "auth") { // to ask who one is, and what one may: everybody has it
					continue
				}
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						given = append(given, strings.TrimPrefix(group+"/"+resource+" "+verb, "/"))
					}
				}
			}
		}
		slices.Sort(given)
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, slices.Sorted(maps.Keys(used)), given)
	})

	t.Run("AreNoOthers", func(t *testing.T) {
		in := func(namespace, rest string) string { return "/api/v1/namespaces/" + namespace + "/" + rest }
		for _, call := range []struct{ method, path string }{
			{"GET", in("video", "secrets")}, {"GET", in("video", "secrets/reelay")}, {"PUT", in("video", "secrets/reelay")},
			{"GET", in("video", "configmaps")}, {"GET", in("video", "podtemplates")}, {"PUT", in("video", "podtemplates/l4")},
			{"PATCH", in("video", "pods/l4-a")}, {"DELETE", in("video", "pods")}, {"GET", in("video", "pods/l4-a/log")},
			{"POST", in("video", "pods/l4-a/exec")}, {"PATCH", in("video", "pods/l4-a/status")},
			{"POST", in("video", "serviceaccounts/reelay/token")}, {"POST", in("video", "serviceaccounts/default/token")},
			{"GET", "/apis/apps/v1/namespaces/video/deployments"}, {"GET", "/apis/rbac.authorization.k8s.io/v1/namespaces/video/roles"},
			{"PATCH", "/apis/rbac.authorization.k8s.io/v1/namespaces/video/roles/reelay-pods"},
			{"GET", in("default", "pods")}, {"POST", in("default", "pods")}, {"GET", in("kube-system", "secrets")}, {"GET", "/api/v1/pods"},
			{"GET", "/api/v1/nodes"}, {"GET", "/api/v1/namespaces"}, {"GET", "/api/v1/secrets"},
		} {
			status, _ := account.Do(call.method, call.path, cluster.Object{})
			require.Equal(t, http.StatusForbidden, status, "%s %s", call.method, call.path)
		}
		agents := filepath.Join(t.TempDir(), "token")
		h.Token(agents, "default", time.Hour)
		text, err := os.ReadFile(agents)
		require.NoError(t, err)
		status, _ := h.As(string(text)).Do("GET", h.Path("pods"), nil)
		require.Equal(t, http.StatusForbidden, status, "agents have no rights")
	})

	t.Run("AreGoneWithTheProvider", func(t *testing.T) {
		h.release(helm4, objects, h.objects(current, chartValues(t, "minimal"), "kubernetesProvider: {enabled: false}"))
		testrun.Eventually(t, "the account may list no pods", func() bool {
			status, _ := account.Do("GET", h.Path("pods"), nil)
			return status == http.StatusForbidden
		})
	})
}

// rightOf returns the right that a call needs, such as "pods list", or "" for one that everybody has. To read nodes is not
// among them: the provider does without.
func rightOf(r *http.Request) string {
	rest, ok := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/"+releaseNamespace+"/")
	if !ok {
		return ""
	}
	parts := strings.Split(rest, "/")
	resource := parts[0]
	if len(parts) == 3 {
		resource += "/" + parts[2]
	}
	verb := map[string]string{"POST": "create", "DELETE": "delete", "GET": "get"}[r.Method]
	switch {
	case r.URL.Query().Get("watch") == "true":
		verb = "watch"
	case r.Method == "GET" && len(parts) == 1:
		verb = "list"
	}
	return resource + " " + verb
}
