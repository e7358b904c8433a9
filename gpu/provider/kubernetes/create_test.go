package kubernetes_test

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/gpu/provider/kubernetes"
	"github.com/reelay/reelay/gpu/provider/kubernetes/fakekube"
	"github.com/stretchr/testify/require"
)

// at returns a part of an object: names of fields, and numbers of items.
func at(t *testing.T, value any, path ...any) any {
	t.Helper()
	for _, step := range path {
		switch step := step.(type) {
		case string:
			value = value.(fakekube.Object)[step]
		case int:
			value = value.([]any)[step]
		}
	}
	return value
}

func TestCreate(t *testing.T) {
	t.Parallel()
	c := setup(t)

	c.create(t, "spot-a", "spot-b")
	c.create(t, "spot-a", "spot-b") // it can be repeated

	pods := c.Pods()
	require.Len(t, pods, 2)
	pod := pods["spot-a"]
	require.Equal(t, fakekube.Object{"kueue.x-k8s.io/queue-name": "video", "reelay-pool": string(c.pool.ID),
		"reelay-cluster": kubernetes.Label("Production #1")}, at(t, pod, "metadata", "labels"))
	require.Equal(t, "b", at(t, pod, "metadata", "annotations", "a"))
	require.Equal(t, "Never", at(t, pod, "spec", "restartPolicy"))
	for _, name := range []string{"priorityClassName", "runtimeClassName", "nodeSelector", "tolerations", "volumes"} {
		require.NotNil(t, at(t, pod, "spec", name), name)
	}
	require.InDelta(t, 90, at(t, pod, "spec", "terminationGracePeriodSeconds"), 0)
	agent := at(t, pod, "spec", "containers", 1)
	require.InDelta(t, 1, at(t, agent, "resources", "limits", "nvidia.com/gpu"), 0)
	variables := map[string]any{}
	for _, one := range at(t, agent, "env").([]any) {
		name := at(t, one, "name").(string)
		require.NotContains(t, variables, name)
		variables[name] = at(t, one, "value")
	}
	require.Equal(t, map[string]any{
		"REELAY_API_KEY": nil, "REELAY_AGENT_RUNTIME": "ltx=python3 /app/ltx.py", "REELAY_ENDPOINT": "https://reelay.example",
		"REELAY_AGENT_PROVIDER": "kubernetes", "REELAY_AGENT_INSTANCE_ID": "spot-a", "REELAY_AGENT_POOL": string(c.pool.ID),
		"REELAY_AGENT_REGION": "eu-1", "REELAY_AGENT_GPU_TYPE": "L4", "REELAY_AGENT_CAPACITY_CLASS": "SPOT",
		"REELAY_AGENT_MODELS": "testcard,a$$(HOME)$$$$(KEY)$$1", "REELAY_AGENT_NOTICE": "80s", "REELAY_AGENT_GRACE": "90s",
	}, variables)
	require.Nil(t, at(t, pod, "spec", "containers", 0, "env"), "the other container is as it was")
}

// TestCreateAnswers has answers that are lost, refused and wrong.
func TestCreateAnswers(t *testing.T) {
	t.Parallel()
	html := func(status int) func(http.ResponseWriter, *http.Request, func() (int, fakekube.Object)) {
		return func(w http.ResponseWriter, _ *http.Request, _ func() (int, fakekube.Object)) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "<html>Sign in</html>")
		}
	}
	const quotaBusy = `Operation cannot be fulfilled on resourcequotas "gpus": the object has been modified; please apply your changes to the latest version`
	for name, test := range map[string]struct {
		set   func(c *cluster)
		class fleet.ErrorClass // "" if it is created
		says  string
	}{
		"LostAnswer": {func(c *cluster) { c.Lose("POST pods", 1) }, "", ""},
		"AllLost":    {func(c *cluster) { c.Lose("POST pods", 3); c.Lose("GET pods/", 3) }, fleet.Transient, "does not answer"},
		"TooMany":    {func(c *cluster) { c.Refuse("POST pods", 1, 429, "TooManyRequests", "later", "Retry-After", "1") }, "", ""},
		"TooManyLong": {func(c *cluster) { c.Refuse("POST pods", 1, 429, "TooManyRequests", "later", "Retry-After", "60") },
			fleet.Transient, "later"},
		"Restarting": {func(c *cluster) { c.Refuse("POST pods", 2, 503, "ServiceUnavailable", "starting") }, "", ""},
		"Broken": {func(c *cluster) { c.Refuse("POST pods", 3, 500, "InternalError", "failed calling webhook") },
			fleet.Transient, "webhook"},
		"Quota":     {func(c *cluster) { c.Limit(0) }, fleet.Quota, "exceeded quota: gpus"},
		"QuotaBusy": {func(c *cluster) { c.Refuse("POST pods", 2, 409, "Conflict", quotaBusy) }, "", ""},
		"QuotaStaysBusy": {func(c *cluster) { c.Refuse("POST pods", 3, 409, "Conflict", quotaBusy) },
			fleet.Transient, "resourcequotas"},
		"Forbidden": {func(c *cluster) { c.Refuse("POST pods", 1, 403, "Forbidden", "violates PodSecurity") },
			fleet.Permission, "violates PodSecurity"},
		"Invalid": {func(c *cluster) { c.Refuse("POST pods", 1, 422, "Invalid", "spec.containers[1].image: Required value") },
			fleet.Invalid, "Required value"},
		"SignIn": {func(c *cluster) { c.Fault("POST pods", 3, html(200)) },
			fleet.Transient, "no answer of Kubernetes but text/html: is a proxy in between?"},
		"Gateway":  {func(c *cluster) { c.Fault("POST pods", 3, html(502)) }, fleet.Transient, "502 Bad Gateway"},
		"NotFound": {func(c *cluster) { c.Fault("POST pods", 3, html(404)) }, fleet.Transient, "404 Not Found"},
		"Redirect": {func(c *cluster) { c.Fault("POST pods", 3, html(302)) }, fleet.Transient, "302 Found"},
		"NoTemplate": {func(c *cluster) { c.pool.Settings = []byte(`{"template": "absent"}`) },
			fleet.Invalid, "there is no PodTemplate absent in the namespace reelay"},
		"BadSettings":  {func(c *cluster) { c.pool.Settings = []byte(`{}`) }, fleet.Invalid, "settings.template is empty"},
		"ExpiredToken": {func(c *cluster) { c.Expire() }, fleet.Permission, "Unauthorized"},
		"OtherObject": {func(c *cluster) {
			c.Fault("GET podtemplates/", 3, func(w http.ResponseWriter, _ *http.Request, _ func() (int, fakekube.Object)) {
				_, _ = io.WriteString(w, "{}")
			})
		}, fleet.Transient, `an object of the kind "" in place of PodTemplate`},
		"NotOurs": {func(c *cluster) {
			c.Put("spot-a", fakekube.Object{"metadata": fakekube.Object{}, "spec": fakekube.Object{}})
		}, fleet.Invalid,
			"there is a pod of this name that does not belong to the pool"},
		"EndedMeanwhile": {func(c *cluster) { c.Refuse("POST pods", 1, 409, "AlreadyExists", "exists") }, fleet.Transient, "has just ended"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := setup(t)
			test.set(c)
			if test.class == "" {
				c.create(t, "spot-a")
				require.Len(t, c.Pods(), 1)
				return
			}
			class, says := c.refused(t, "spot-a")
			require.Equal(t, test.class, class, says)
			require.Contains(t, says, test.says)
		})
	}
}

// TestTemplates has templates that no agent can run in.
func TestTemplates(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ from, to, says string }{
		"NoAgent":    {`"name": "agent"`, `"name": "worker"`, "has no container with the name agent"},
		"ShortGrace": {`90`, `19`, "has a terminationGracePeriodSeconds of 19: it must be at least 20"},
		"PlainKey": {`"valueFrom": {"secretKeyRef": {"name": "reelay-worker", "key": "REELAY_API_KEY"}}`, `"value": "rl_live_x"`,
			"has the agent's key as plain text: put it into a Secret"},
		"NoKey": {`REELAY_API_KEY", "valueFrom"`, `OTHER_KEY", "valueFrom"`, "gives the agent no key"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := setup(t)
			changed := strings.ReplaceAll(template, test.from, test.to)
			require.NotEqual(t, template, changed)
			c.SetTemplate("l4-agent", changed)
			class, says := c.refused(t, "spot-a")
			require.Equal(t, fleet.Invalid, class)
			require.Contains(t, says, "the PodTemplate l4-agent "+test.says)
			require.NotContains(t, says, "rl_live_x")
			require.Empty(t, c.Pods())
		})
	}
	for name, replaced := range map[string]string{
		"EnvFrom": `"envFrom": [{"secretRef": {"name": "reelay-worker"}}], "env": [{"name": "A", "value": "b"}`,
		"File":    `"env": [{"name": "REELAY_API_KEY_FILE", "value": "/key/key"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := setup(t)
			c.SetTemplate("l4-agent", template[:strings.Index(template, `"env": [`)]+replaced+"]}]}}")
			c.create(t, "spot-a")
		})
	}
	t.Run("NoEndpoint", func(t *testing.T) {
		t.Parallel()
		c := setup(t, func(config *kubernetes.Config) { config.Endpoint = "" })
		_, says := c.refused(t, "spot-a")
		require.Contains(t, says, "does not set REELAY_ENDPOINT, and control has no REELAY_PUBLIC_URL")
		c.SetTemplate("l4-agent", strings.Replace(template, `"env": [`, `"env": [{"name": "REELAY_ENDPOINT", "value": "http://reelay"},`, 1))
		c.create(t, "spot-a")
	})
}

func TestToken(t *testing.T) {
	t.Parallel()

	t.Run("IsReadAgainWhenItChanges", func(t *testing.T) {
		t.Parallel()
		c := setup(t)
		c.create(t, "spot-a")
		c.Rotate(t, "token-2")
		c.create(t, "spot-b")
	})

	t.Run("IsReadAgainAfterARefusal", func(t *testing.T) {
		t.Parallel()
		c := setup(t)
		c.create(t, "spot-a")
		// The kubelet replaces the token while a call is on its way with the former one.
		c.Fault("POST pods", 1, func(w http.ResponseWriter, _ *http.Request, answer func() (int, fakekube.Object)) {
			c.Rotate(t, "token-2")
			status, _ := answer()
			w.WriteHeader(status)
		})
		c.create(t, "spot-b")
	})

	t.Run("IsMissing", func(t *testing.T) {
		t.Parallel()
		c := setup(t)
		require.NoError(t, os.WriteFile(c.TokenFile, []byte("two\nlines"), 0o600))
		class, says := c.refused(t, "spot-a")
		require.Equal(t, fleet.Permission, class)
		require.Contains(t, says, "holds no token of a service account")
		require.NotContains(t, says, "two")
	})
}

func TestConnect(t *testing.T) {
	t.Parallel()

	t.Run("NeedsTheAuthority", func(t *testing.T) {
		t.Parallel()
		c := setup(t, func(config *kubernetes.Config) { config.CAFile = "" })
		class, says := c.refused(t, "spot-a")
		require.Equal(t, fleet.Permission, class)
		require.Contains(t, says, "the certificate of the API server is not trusted")
	})

	t.Run("SaysThatItIsInNoPod", func(t *testing.T) {
		t.Parallel()
		c := setup(t, func(config *kubernetes.Config) { config.URL = "" })
		class, says := c.refused(t, "spot-a")
		require.Equal(t, fleet.Permission, class)
		require.Contains(t, says, "set REELAY_KUBERNETES_URL")
	})

	t.Run("WaitsNoLongerThanItsLimit", func(t *testing.T) {
		t.Parallel()
		c := setup(t, func(config *kubernetes.Config) { config.CallTimeout = 50 * time.Millisecond })
		for _, call := range []string{"GET podtemplates/", "GET pods"} {
			c.Fault(call, 9, func(w http.ResponseWriter, r *http.Request, _ func() (int, fakekube.Object)) {
				_, _ = io.WriteString(w, `{"kind": "PodList", "items": [`)
				for r.Context().Err() == nil {
					if _, err := io.WriteString(w, strings.Repeat(" ", 1<<16)); err != nil {
						return
					}
				}
			})
		}
		class, _ := c.refused(t, "spot-a")
		require.Equal(t, fleet.Transient, class)
		_, err := c.List(t.Context(), c.pool)
		require.Equal(t, fleet.Transient, fleet.ClassOf(err))
	})
}
