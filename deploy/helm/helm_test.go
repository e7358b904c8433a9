package helm

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/reelay/reelay/gpu/agent"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// render is the program of the folder of this name.
var render string

func TestMain(m *testing.M) {
	testrun.Main(func() int {
		folder, err := os.MkdirTemp("", "render-")
		if err == nil {
			render = filepath.Join(folder, "render")
			build := exec.Command("go", "-C", "render", "build", "-o", render, ".")
			build.Stderr = os.Stderr
			err = build.Run()
		}
		if err != nil {
			os.Stderr.WriteString("build the renderer: " + err.Error() + "\n")
			return 1
		}
		return m.Run()
	})
}

// object is an object of the chart, as far as the tests read it.
type object struct {
	Kind     string
	Metadata struct {
		Name        string
		Labels      map[string]string
		Annotations map[string]string
	}
	Spec struct {
		Replicas *int
		Selector json.RawMessage
		Template template
		Rules    []struct {
			Host string
			HTTP struct{ Paths []struct{ Path string } }
		}
		PodSelector struct{ MatchLabels map[string]string }
		Ingress     []json.RawMessage
		Target      struct{ Name string }
		Endpoints   []struct{ Port string }

		PublishNotReadyAddresses bool
	}
	Template template // of a PodTemplate
	Rules    []struct{ Resources, Verbs []string }
}

type template struct {
	Metadata struct{ Labels map[string]string }
	Spec     pod
}

type pod struct {
	TerminationGracePeriodSeconds int
	AutomountServiceAccountToken  *bool
	RestartPolicy                 string
	ServiceAccountName            string
	NodeSelector                  map[string]string
	SecurityContext               struct {
		RunAsNonRoot   bool
		RunAsUser      int
		FSGroup        int
		SeccompProfile struct{ Type string }
	}
	Containers []struct {
		Name, Image     string
		Args            []string
		Env             []struct{ Name, Value string }
		SecurityContext struct {
			AllowPrivilegeEscalation *bool
			ReadOnlyRootFilesystem   bool
			Capabilities             struct{ Drop []string }
		}
		Resources    struct{ Limits map[string]any }
		VolumeMounts []struct{ Name, MountPath string }
	}
	Volumes []struct {
		Name   string
		Secret *struct {
			SecretName  string
			DefaultMode int
		}
	}
}

// pod returns the pod that an object makes, or nil.
func (o *object) pod() *pod {
	switch {
	case len(o.Spec.Template.Spec.Containers) > 0:
		return &o.Spec.Template.Spec
	case len(o.Template.Spec.Containers) > 0:
		return &o.Template.Spec
	}
	return nil
}

// env returns the variables of the pod's only container.
func (p *pod) env() map[string]string {
	found := map[string]string{}
	for _, variable := range p.Containers[0].Env {
		found[variable.Name] = variable.Value
	}
	return found
}

// minimal are the values that everybody must set, and full has everything that can be turned on.
var minimal, full = values("minimal"), values("minimal") + values("full")

func values(name string) string {
	text, err := os.ReadFile("testdata/" + name + ".yaml")
	if err != nil {
		panic(err)
	}
	return string(text)
}

// tryRender returns what the program says of values.
func tryRender(t *testing.T, values string) ([]byte, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	require.NoError(t, os.WriteFile(file, []byte(values), 0o600))
	cmd := exec.CommandContext(t.Context(), render, ".", file)
	cmd.Stderr = new(strings.Builder)
	text, err := cmd.Output()
	if err != nil {
		return []byte(cmd.Stderr.(*strings.Builder).String()), err
	}
	return text, nil
}

// rendered returns the objects of the chart, by kind and name.
func rendered(t *testing.T, values string) map[string]*object {
	t.Helper()
	text, err := tryRender(t, values)
	require.NoError(t, err, string(text))
	var objects []*object
	require.NoError(t, json.Unmarshal(text, &objects))
	found := map[string]*object{}
	for _, o := range objects {
		key := o.Kind + " " + o.Metadata.Name
		require.NotContains(t, found, key)
		found[key] = o
	}
	return found
}

func TestChart(t *testing.T) {
	t.Parallel()

	all := rendered(t, full)

	t.Run("ClosesWhatPodsDoNotNeed", func(t *testing.T) {
		t.Parallel()

		pods := 0
		for name, o := range all {
			p := o.pod()
			if p == nil {
				continue
			}
			pods++
			require.True(t, p.SecurityContext.RunAsNonRoot, name)
			require.Equal(t, 65532, p.SecurityContext.RunAsUser, name)
			require.Equal(t, "RuntimeDefault", p.SecurityContext.SeccompProfile.Type, name)
			require.Len(t, p.Containers, 1, name)
			c := p.Containers[0]
			require.False(t, *c.SecurityContext.AllowPrivilegeEscalation, name)
			require.True(t, c.SecurityContext.ReadOnlyRootFilesystem, name)
			require.Equal(t, []string{"ALL"}, c.SecurityContext.Capabilities.Drop, name)
			require.NotNil(t, p.AutomountServiceAccountToken, name)
			require.Equal(t, p.ServiceAccountName == "reelay", *p.AutomountServiceAccountToken, name)
			require.Regexp(t, `:\d`, c.Image, "an image has a version")
		}
		require.Equal(t, 5, pods)
	})

	t.Run("GivesPodsTheirSecretsAsFiles", func(t *testing.T) {
		t.Parallel()

		for name, o := range all {
			p := o.pod()
			if p == nil {
				continue
			}
			for setting, value := range p.env() {
				require.NotRegexp(t, `(?i)://[^/]*:[^/]*@`, value, "%s of %s has a password", setting, name)
				if file, ok := strings.CutPrefix(value, "/run/secrets/reelay/"); ok {
					require.NotContains(t, file, "/")
				}
			}
			require.Equal(t, 65532, p.SecurityContext.FSGroup, "the group reads the files")
			require.Equal(t, 0o440, p.Volumes[0].Secret.DefaultMode, name)
			require.Equal(t, "reelay", p.Volumes[0].Secret.SecretName, name)
		}
	})

	t.Run("HasSettingsThatAreDocumented", func(t *testing.T) {
		t.Parallel()
		page, err := os.ReadFile("../../docs/operators/configuration.md")
		require.NoError(t, err)
		flags := agent.Command("test").Flags()

		for name, o := range all {
			p := o.pod()
			if p == nil {
				continue
			}
			seen := map[string]bool{}
			for _, variable := range p.Containers[0].Env {
				require.False(t, seen[variable.Name], "%s is twice in %s", variable.Name, name)
				seen[variable.Name] = true
				if flag, ok := strings.CutPrefix(variable.Name, "REELAY_AGENT_"); ok && strings.Contains(name, "agent") || name == "PodTemplate spot" && ok {
					require.NotNil(t, flags.Lookup(strings.ToLower(strings.ReplaceAll(flag, "_", "-"))), "%s of %s", variable.Name, name)
					continue
				}
				require.Regexp(t, "`"+variable.Name+"`", string(page), name)
			}
		}
	})

	t.Run("GivesProcessesTimeToStop", func(t *testing.T) {
		t.Parallel()

		// docs/operators/images.md names the least.
		require.GreaterOrEqual(t, all["Deployment reelay-api"].pod().TerminationGracePeriodSeconds, 10+30)
		require.GreaterOrEqual(t, all["Deployment reelay-control"].pod().TerminationGracePeriodSeconds, 60)
		require.Equal(t, 70, all["PodTemplate spot"].pod().TerminationGracePeriodSeconds)
		fixed := all["Deployment reelay-agent-fixed"].pod()
		require.Equal(t, 40, fixed.TerminationGracePeriodSeconds)
		require.Equal(t, "30s", fixed.env()["REELAY_AGENT_NOTICE"])
		require.Equal(t, "40s", fixed.env()["REELAY_AGENT_GRACE"])
	})

	t.Run("BringsTheSchemaUpToDateFirst", func(t *testing.T) {
		t.Parallel()

		migrate := all["Job reelay-migrate"]
		require.Equal(t, "pre-install,pre-upgrade", migrate.Metadata.Annotations["helm.sh/hook"])
		require.Equal(t, []string{"migrate"}, migrate.pod().Containers[0].Args)
		secret := all["ExternalSecret reelay"]
		require.Equal(t, "pre-install,pre-upgrade", secret.Metadata.Annotations["helm.sh/hook"])
		require.Equal(t, "-10", secret.Metadata.Annotations["helm.sh/hook-weight"], "before migrate")
		require.Equal(t, "reelay", secret.Spec.Target.Name)
	})

	t.Run("MakesAgentsForPools", func(t *testing.T) {
		t.Parallel()

		spot := all["PodTemplate spot"].pod()
		require.Equal(t, "agent", spot.Containers[0].Name, "the provider kubernetes looks for it")
		require.Equal(t, "http://reelay-api.video.svc", spot.env()["REELAY_ENDPOINT"])
		require.Equal(t, "/run/secrets/reelay/worker-key", spot.env()["REELAY_API_KEY_FILE"])
		require.NotContains(t, spot.env(), "REELAY_AGENT_POOL", "the provider says it")
		require.Equal(t, map[string]any{"memory": "64Gi", "nvidia.com/gpu": 1.0}, spot.Containers[0].Resources.Limits)
		require.Equal(t, "true", spot.NodeSelector["cloud.google.com/gke-spot"])
		require.Equal(t, "gpus", all["PodTemplate spot"].Template.Metadata.Labels["kueue.x-k8s.io/queue-name"])
		fixed := all["Deployment reelay-agent-fixed"]
		require.Equal(t, 2, *fixed.Spec.Replicas)
		require.Equal(t, "l4-spot", fixed.pod().env()["REELAY_AGENT_POOL"])
		require.Contains(t, all["Deployment reelay-api"].pod().env()["REELAY_HOSTS"], "reelay-api.video.svc,", "by which agents call it")
	})

	t.Run("LeavesMetricsInTheCluster", func(t *testing.T) {
		t.Parallel()

		paths := all["Ingress reelay"].Spec.Rules[0].HTTP.Paths
		require.Equal(t, "reelay.example.com", all["Ingress reelay"].Spec.Rules[0].Host)
		require.Equal(t, "/metrics", paths[0].Path)
		require.Len(t, all["ServiceMonitor reelay"].Spec.Endpoints, 2)
	})

	t.Run("LetsNobodyCallWorkers", func(t *testing.T) {
		t.Parallel()

		require.Empty(t, all["NetworkPolicy reelay-agents"].Spec.Ingress)
		require.Empty(t, all["NetworkPolicy reelay-migrate"].Spec.Ingress)
		require.Len(t, all["NetworkPolicy reelay-api"].Spec.Ingress, 1)
	})

	t.Run("GivesNoRightToSecrets", func(t *testing.T) {
		t.Parallel()

		require.Len(t, all["Role reelay-pods"].Rules, 3)
		for _, rule := range all["Role reelay-pods"].Rules {
			require.NotContains(t, rule.Resources, "secrets")
			require.False(t, slices.Contains(rule.Verbs, "*"))
		}
	})

	t.Run("LeavesOutWhatIsTurnedOff", func(t *testing.T) {
		t.Parallel()

		few := rendered(t, minimal+`
kubernetesProvider: {enabled: false}
networkPolicy: {enabled: false}
secret: {name: mine, s3Keys: false}
metrics: {open: false}
migrate: {enabled: false}
service: {type: LoadBalancer}
agents: [{name: "123", priorityClassName: "1", weightsClaim: "7"}]
api: {autoscaling: {enabled: false}, replicas: 3}
`)
		for name := range few {
			require.NotRegexp(t, regexp.MustCompile("Role|NetworkPolicy|Ingress|ServiceMonitor|ExternalSecret|Job|HorizontalPodAutoscaler"), name)
		}
		require.Equal(t, 3, *few["Deployment reelay-api"].Spec.Replicas)
		require.Nil(t, all["Deployment reelay-api"].Spec.Replicas, "the autoscaler says how many")
		require.False(t, *few["Deployment reelay-control"].pod().AutomountServiceAccountToken)
		require.NotContains(t, few["Deployment reelay-api"].pod().env(), "REELAY_S3_ACCESS_KEY_FILE")
		keyless := rendered(t, minimal+"secret: {workerKey: false}")
		require.NotContains(t, keyless["Deployment reelay-control"].pod().env(), "REELAY_AGENT_KEY_FILE")
	})

	t.Run("LetsAgentsFollowThePrimaryRegion", func(t *testing.T) {
		t.Parallel()

		region := `
settings: {REELAY_REGION: eu, REELAY_KUBERNETES_URL: "https://10.0.0.1", REELAY_KUBERNETES_TOKEN_FILE: /run/secrets/reelay/kubernetes-token}
agents: [{name: a}]
`
		endpoint := func(values string) string {
			return rendered(t, values)["PodTemplate a"].pod().env()["REELAY_ENDPOINT"]
		}
		require.Equal(t, "https://reelay.example.com", endpoint(minimal+region))
		require.Equal(t, "http://10.1.1.1:81", endpoint(minimal+region+"agentEndpoint: http://10.1.1.1:81"))
		migrate := rendered(t, minimal+region)["Job reelay-migrate"].pod().env()
		require.Equal(t, "eu", migrate["REELAY_REGION"], "settings are for all processes")
		require.True(t, rendered(t, minimal+region)["Service reelay-api-region"].Spec.PublishNotReadyAddresses, "a region that waits answers the others")
		require.NotContains(t, rendered(t, minimal), "Service reelay-api-region")
	})

	t.Run("LetsAgentsCallAClosedAPI", func(t *testing.T) {
		t.Parallel()

		var ingress struct {
			From []struct {
				PodSelector, NamespaceSelector *struct{ MatchLabels map[string]string }
			}
		}
		require.NoError(t, json.Unmarshal(all["NetworkPolicy reelay-api"].Spec.Ingress[0], &ingress))
		require.Len(t, ingress.From, 3)
		require.Equal(t, "agent", ingress.From[0].PodSelector.MatchLabels["app.kubernetes.io/component"])
		require.Equal(t, "ingress", ingress.From[1].NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"])
	})

	t.Run("KnowsAllSettings", func(t *testing.T) {
		t.Parallel()
		page, err := os.ReadFile("../../docs/operators/configuration.md")
		require.NoError(t, err)
		servers, _, _ := strings.Cut(string(page), "## CLI and agent")
		helpers, err := os.ReadFile("templates/_helpers.tpl")
		require.NoError(t, err)
		known := regexp.MustCompile(`(?s)define "reelay.known" -}}(.*?){{- end`).FindSubmatch(helpers)[1]
		for _, line := range strings.Split(servers, "\n") {
			if !strings.HasPrefix(line, "| `") {
				continue
			}
			for _, name := range regexp.MustCompile("`(REELAY_[A-Z0-9_]+)`").FindAllStringSubmatch(strings.Split(line, "|")[1], -1) {
				if name[1] != "REELAY_LOCAL_PROVIDER" && !slices.Contains(strings.Fields(string(known)), name[1]) {
					said, err := tryRender(t, minimal+"settings: {"+name[1]+": a}")
					require.Error(t, err, "the chart does not know the setting %s", name[1])
					require.NotContains(t, string(said), "there is no such setting")
				}
			}
		}
	})
}

func TestValues(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct{ values, want string }{
		"NoAddress":         {"store: s3://b", "publicURL is required"},
		"NoBucket":          {"publicURL: https://reelay.example.com", "store is required"},
		"AnUnknownValue":    {minimal + "replicaz: 2", "'replicaz' not allowed"},
		"AnUnknownInnerOne": {minimal + "api: {replicaz: 2}", "'replicaz' not allowed"},
		"AWordForANumber":   {minimal + "control: {replicas: two}", "/control/replicas"},
		"NoReplicas":        {minimal + "control: {replicas: 0}", "/control/replicas"},
		"ANumberAsASetting": {minimal + "settings: {REELAY_RETENTION_JOBS_DAYS: 30}", "/settings/REELAY_RETENTION_JOBS_DAYS"},
		"ASecretAsASetting": {minimal + "settings: {DATABASE_URL: 'postgres://a:b@c/d'}",
			"settings.DATABASE_URL: it belongs in the secret, as the key database-url"},
		"AFileOfASecret":      {minimal + "settings: {REDIS_URL_FILE: /a}", "as the key redis-url"},
		"AnotherSecret":       {minimal + "settings: {REELAY_OIDC_CLIENT_SECRET: a}", "set REELAY_OIDC_CLIENT_SECRET_FILE to /run/secrets/reelay/KEY"},
		"ASettingOfTheChart":  {minimal + "settings: {REELAY_LISTEN: ':1'}", "settings.REELAY_LISTEN: the chart sets it itself"},
		"ASettingWithAValue":  {minimal + "settings: {REELAY_HOSTS: a}", "set the value hosts instead"},
		"ATypoInASetting":     {minimal + "settings: {REELAY_REGION_PEER: 'https://a'}", "settings.REELAY_REGION_PEER: there is no such setting"},
		"ARegionsOwnCluster":  {minimal + "settings: {REELAY_REGION: eu}", "both regions must use the same cluster"},
		"KeysForGoogle":       {"publicURL: https://a.example\nstore: gs://b", "set secret.s3Keys to false"},
		"MoreThanAreAllowed":  {minimal + "api: {autoscaling: {minReplicas: 9}}", "minReplicas is greater than maxReplicas"},
		"AgentsWithoutAKey":   {minimal + "secret: {workerKey: false}\nagents: [{name: a}]", "agents need the key worker-key"},
		"TwoAgentsOfAName":    {minimal + "agents: [{name: a}, {name: a}]", "agents: a is there twice"},
		"AnotherBucket":       {"publicURL: https://a.example\nstore: /tmp", "/store"},
		"APathInTheAddress":   {"publicURL: https://a.example/video\nstore: s3://b", "/publicURL"},
		"AnAgentWithoutName":  {minimal + "agents: [{gpus: 1}]", "'name'"},
		"ATypoInAnAgent":      {minimal + "agents: [{name: a, toleration: []}]", "'toleration' not allowed"},
		"AFixedAgentOfNoPool": {minimal + "agents: [{name: a, replicas: 1}]", "a has replicas, so it needs a pool, a region and a gpuType"},
		"APoolOfATemplate":    {minimal + "agents: [{name: a, pool: b}]", "a is a template"},
		"AShortNotice":        {minimal + "agents: [{name: a, noticeSeconds: 5}]", "/agents/0/noticeSeconds"},
		"AStoreWithoutName":   {minimal + "secret: {external: {enabled: true}}", "secret.external.store.name is required"},
		"OpenMetricsForAll":   {minimal + "service: {type: LoadBalancer}", "metrics.open is true"},
		"HalfAList":           {minimal + "agents: [{name: a]", "yaml"},
		"AToleranceOfNoKind":  {minimal + "agents: [{name: a, tolerations: [{kee: a}]}]", `unknown field "template.spec.tolerations[0].kee"`},
	} {
		t.Run("AreRefused"+name, func(t *testing.T) {
			t.Parallel()

			said, err := tryRender(t, c.values)

			require.Error(t, err)
			require.Contains(t, string(said), c.want)
		})
	}
}
