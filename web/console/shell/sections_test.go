package shell

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNavigation_HasNoTwoSectionsWithTheSameKeys(t *testing.T) {
	t.Parallel()

	keys := map[string]string{"g n": "New job"}
	for _, g := range navigation {
		for _, s := range g.sections {
			require.Empty(t, keys[s.keys], s.name)
			keys[s.keys] = s.name
		}
	}
}

func TestNavigation_LeadsBackToWhereAnActionWas(t *testing.T) {
	t.Parallel()

	for path, label := range map[string]string{
		"/jobs": "Back to jobs", "/jobs?q=a": "Back to jobs", "/jobs/new": "Back to the form", "/jobs/job_1": "Back to the job",
		"/workers": "Back to workers", "/pools/pol_1": "Back to the pool", "/models/apply": "Back to the form", "/asynqmon/x": "Back to asynq",
		"/nowhere": "Back to jobs",
	} {
		require.Equal(t, label, backLabel(path), path)
	}
}
