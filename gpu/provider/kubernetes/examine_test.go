package kubernetes_test

import (
	"testing"

	"github.com/reelay/reelay/features/doctor"
	"github.com/reelay/reelay/gpu/provider/kubernetes"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

func TestExamine(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		set   func(c *cluster)
		check string // the one that fails, or ""
		says  string
		level doctor.Level
	}{
		"Fine": {func(*cluster) {}, "", "", doctor.LevelOK},
		"Settings": {func(c *cluster) { c.pool.Settings = []byte(`{}`) },
			"kubernetes-settings", "settings.template is empty", doctor.LevelBroken},
		"Token": {func(c *cluster) { c.Expire() }, "kubernetes-access", "Unauthorized", doctor.LevelBroken},
		"Away": {func(c *cluster) { c.Refuse("GET pods", 9, 503, "ServiceUnavailable", "starting") },
			"kubernetes-access", "starting", doctor.LevelUnknown},
		"Rights": {func(c *cluster) { c.Deny("watch pods", "create pods/eviction") },
			"kubernetes-rights", "these are missing: watch pods, create pods/eviction", doctor.LevelBroken},
		"Template": {func(c *cluster) { c.pool.Settings = []byte(`{"template": "t4"}`) },
			"kubernetes-template", "there is no PodTemplate t4", doctor.LevelBroken},
		"QuotaSpent": {func(c *cluster) { c.Limit(0) }, "kubernetes-pod", "exceeded quota", doctor.LevelBroken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := setup(t)
			test.set(c)

			found := (&kubernetes.Examiner{Provider: c.Provider, Pools: []*capacity.Pool{c.pool, {}}}).Examine(t.Context())

			for _, f := range found {
				if f.Check == test.check {
					require.Equal(t, test.level, f.Level)
					require.Contains(t, f.Found, test.says)
					continue
				}
				require.Equal(t, doctor.LevelOK, f.Level, f)
			}
			if test.check == "" {
				require.Len(t, found, 4)
			}
			require.Empty(t, c.Pods())
		})
	}
}
