package e2e

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/reelay/reelay/gpu/agent"
	"github.com/stretchr/testify/require"
)

// podSpec is what the manifests of docs/operators/kubernetes.md say of a pod.
type podSpec struct {
	RestartPolicy                 string `yaml:"restartPolicy"`
	TerminationGracePeriodSeconds int    `yaml:"terminationGracePeriodSeconds"`
	Containers                    []struct {
		Args           []string
		LivenessProbe  *probe `yaml:"livenessProbe"`
		ReadinessProbe *probe `yaml:"readinessProbe"`
	}
}

type probe struct {
	HTTPGet struct {
		Path string
		Port int
	} `yaml:"httpGet"`
}

type podTemplate struct{ Spec podSpec }

type manifest struct {
	Kind     string
	Template podTemplate // of a PodTemplate
	Spec     struct {
		Template     podTemplate
		JobTargetRef struct{ Template podTemplate } `yaml:"jobTargetRef"`
	}
}

// TestManifests checks the agents in the manifests of the documentation: their flags, that the grace
// period suffices and is what the pod has, and that probes ask where the agent listens.
func TestManifests(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/operators/kubernetes.md")
	require.NoError(t, err)
	pods := map[string]podSpec{}
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		for text := range strings.SplitSeq(block[1], "---\n") {
			var m manifest
			require.NoError(t, yaml.Unmarshal([]byte(text), &m))
			switch m.Kind {
			case "Deployment":
				pods[m.Kind] = m.Spec.Template.Spec
			case "PodTemplate":
				pods[m.Kind] = m.Template.Spec
			case "ScaledJob":
				pods[m.Kind] = m.Spec.JobTargetRef.Template.Spec
			}
		}
	}

	require.Len(t, pods, 3)
	for kind, pod := range pods {
		require.Len(t, pod.Containers, 1, kind)
		container := pod.Containers[0]
		command := agent.Command("test")
		require.NoError(t, command.ParseFlags(container.Args), kind)
		grace, err := command.Flags().GetDuration("grace")
		require.NoError(t, err)
		if kind != "PodTemplate" { // whose agent is told by the provider
			require.Equal(t, time.Duration(pod.TerminationGracePeriodSeconds)*time.Second, grace, kind)
		}
		for path, probe := range map[string]*probe{"/healthz": container.LivenessProbe, "/readyz": container.ReadinessProbe} {
			if probe != nil {
				require.Equal(t, path, probe.HTTPGet.Path, kind)
				require.Equal(t, fmt.Sprint(":", probe.HTTPGet.Port), command.Flags().Lookup("health").Value.String(), kind)
			}
		}
		require.NotNil(t, container.LivenessProbe, kind)
		require.Equal(t, kind == "ScaledJob", slices.Contains(container.Args, "--exit-when-idle"), kind)

		// The format of the log is the last setting that is checked.
		checked := agent.Command("test")
		checked.SetArgs(append(slices.Clone(container.Args), "--key=k", "--data=none", "--log=none"))
		require.ErrorContains(t, checked.ExecuteContext(t.Context()), `--log is "none"`, kind)
	}
	require.Equal(t, "Never", pods["ScaledJob"].RestartPolicy)
	require.NotNil(t, pods["Deployment"].Containers[0].ReadinessProbe)
}
