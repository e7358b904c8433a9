package gce_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/reelay/reelay/features/doctor"
	"github.com/reelay/reelay/gpu/provider/gce"
	"github.com/reelay/reelay/gpu/provider/gce/fakegce"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
	"google.golang.org/api/compute/v1"
)

// furnish gives the project what a pool of newPool needs.
func furnish(server *fakegce.Server) {
	server.Put("global/images/family/worker", compute.Image{DiskSizeGb: 50})
	server.Put("global/networks/default", compute.Network{})
	for _, zone := range []string{zoneA, zoneB, zoneC} {
		server.Put("zones/"+zone+"/machineTypes/g2-standard-4", compute.MachineType{
			Accelerators: []*compute.MachineTypeAccelerators{{GuestAcceleratorType: "nvidia-l4", GuestAcceleratorCount: 1}},
		})
	}
	server.Put("regions/us-central1", compute.Region{Quotas: []*compute.Quota{{Metric: "PREEMPTIBLE_NVIDIA_L4_GPUS", Limit: 8}}})
}

func TestExamine(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		arrange func(*fakegce.Server, *capacity.Pool)
		check   string
		level   doctor.Level
		found   string
	}{
		"AllIsWell":   {func(*fakegce.Server, *capacity.Pool) {}, "", doctor.LevelOK, ""},
		"BadSettings": {func(_ *fakegce.Server, p *capacity.Pool) { p.Zones = nil }, "gce-settings", doctor.LevelBroken, "zones is empty"},
		"NoAccess": {func(s *fakegce.Server, _ *capacity.Pool) {
			s.Inject(fakegce.Fault{Method: "instances.aggregatedList", Status: 403, Reason: "forbidden",
				Message: "Required 'compute.instances.list' permission"})
		}, "gce-credentials", doctor.LevelBroken, "compute.instances.list"},
		"AnOutage": {func(s *fakegce.Server, _ *capacity.Pool) {
			s.Inject(fakegce.Fault{Method: "instances.aggregatedList", Status: 503, Reason: "backendError", Times: -1})
		}, "gce-credentials", doctor.LevelUnknown, "503"},
		"APermissionIsMissing": {func(s *fakegce.Server, _ *capacity.Pool) { s.Deny("compute.instances.create") }, "gce-permissions",
			doctor.LevelBroken, "compute.instances.create"},
		"ALargeImage": {func(s *fakegce.Server, _ *capacity.Pool) {
			s.Put("global/images/family/worker", compute.Image{DiskSizeGb: 500})
		}, "gce-image", doctor.LevelBroken, "500 GB"},
		"ATypeThatAZoneLacks": {func(_ *fakegce.Server, p *capacity.Pool) { p.MachineType = "g2-standard-8" }, "gce-machine-type",
			doctor.LevelBroken, "g2-standard-8"},
		"NoNetwork": {func(s *fakegce.Server, _ *capacity.Pool) { s.Remove("global/networks/default") }, "gce-network",
			doctor.LevelBroken, "not found"},
		"NoQuota": {func(s *fakegce.Server, _ *capacity.Pool) {
			s.Put("regions/us-central1", compute.Region{Quotas: []*compute.Quota{{Metric: "PREEMPTIBLE_NVIDIA_L4_GPUS"}}})
		}, "gce-quota", doctor.LevelBroken, "PREEMPTIBLE_NVIDIA_L4_GPUS is 0"},
		"ASmallQuota": {func(_ *fakegce.Server, p *capacity.Pool) { p.MaxWorkers = 9 }, "gce-quota", doctor.LevelAdvice, "9 machines need 9"},
		"OnDemandQuota": {func(_ *fakegce.Server, p *capacity.Pool) { p.CapacityClass = models.CapacityOnDemand }, "gce-quota",
			doctor.LevelAdvice,
			"no quota"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, provider := start(t)
			furnish(server)
			pool := newPool(t)
			c.arrange(server, pool)

			findings := (&gce.Examiner{Provider: provider, Pools: []*capacity.Pool{pool, {}}}).Examine(t.Context())

			require.Equal(t, c.level, doctor.Worst(findings), findings)
			for _, f := range findings {
				if f.Level == doctor.LevelOK {
					require.Empty(t, f.Found)
					continue
				}
				require.Equal(t, c.check, f.Check)
				require.Contains(t, f.Found, c.found)
				require.NotEmpty(t, f.Fix)
			}
			if c.level == doctor.LevelOK {
				require.Len(t, findings, 9)
			}
		})
	}
}

func TestTerraform(t *testing.T) {
	t.Parallel()

	module, err := os.ReadFile("../../../deploy/terraform/main.tf")

	require.NoError(t, err)
	for _, permission := range gce.Permissions() {
		require.Contains(t, string(module), `"`+permission+`",`, "the role of control needs each permission of the doctor")
	}
	declared, err := os.ReadFile("../../../deploy/terraform/variables.tf")
	require.NoError(t, err)
	page, err := os.ReadFile("../../../deploy/terraform/README.md")
	require.NoError(t, err)
	for _, used := range regexp.MustCompile(`\bvar\.([a-z_]+)`).FindAllStringSubmatch(string(module), -1) {
		require.Contains(t, string(declared), `variable "`+used[1]+`" {`)
		require.Contains(t, string(page), "`"+used[1]+"`")
	}
}

func TestCheckPool(t *testing.T) {
	t.Parallel()
	require.NoError(t, gce.CheckPool(newPool(t)))

	for name, c := range map[string]struct {
		edit  func(settings map[string]any)
		field string
	}{
		"NoProject":        {func(s map[string]any) { delete(s, "project") }, "settings.project"},
		"NoImage":          {func(s map[string]any) { delete(s, "image") }, "settings.image"},
		"AnUnknownKey":     {func(s map[string]any) { s["colour"] = "red" }, "settings.colour"},
		"AWrongType":       {func(s map[string]any) { s["diskGB"] = "big" }, "settings.diskGB must be a whole number; it is a text."},
		"ASmallDisk":       {func(s map[string]any) { s["diskGB"] = 1 }, "settings.diskGB"},
		"ALongRun":         {func(s map[string]any) { s["maxRunSeconds"] = 1e9 }, "settings.maxRunSeconds"},
		"ALongNotice":      {func(s map[string]any) { s["preemptionNoticeSeconds"] = 121 }, "settings.preemptionNoticeSeconds"},
		"TwoWaysToStart":   {func(s map[string]any) { s["startupScript"] = "true" }, "settings.startupScript"},
		"TwoWeights":       {func(s map[string]any) { s["weightsDisk"], s["weightsImage"] = "d", "i" }, "settings.weightsImage"},
		"ABadAccount":      {func(s map[string]any) { s["serviceAccount"] = "nobody" }, "settings.serviceAccount"},
		"ASpotReservation": {func(s map[string]any) { s["reservation"] = "l4" }, "settings.reservation"},
		"ABadReservation":  {func(s map[string]any) { s["reservation"] = "regions/r/reservations/l4" }, "settings.reservation"},
		"ABadTag":          {func(s map[string]any) { s["networkTags"] = []string{"A B"} }, "settings.networkTags"},
		"AKeyInTheOpen":    {func(s map[string]any) { s["environment"] = map[string]string{"REELAY_API_KEY": "k"} }, "settings.environment"},
		"AttributesOfOurs": {func(s map[string]any) { s["metadata"] = map[string]string{"reelay-enrolment-key": "k"} }, "settings.metadata"},
		"AVariableOfLines": {func(s map[string]any) { s["environment"] = map[string]string{"A": "b\nc"} }, "settings.environment"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			err := gce.CheckPool(newPool(t, c.edit))

			require.ErrorContains(t, err, c.field)
		})
	}

	for name, edit := range map[string]func(*capacity.Pool){
		"zones has \"europe-west4-a\"": func(p *capacity.Pool) { p.Zones = []string{"europe-west4-a"} },
		"zones has us-central1-a":      func(p *capacity.Pool) { p.Zones = []string{zoneA, zoneA} },
		"zones is empty":               func(p *capacity.Pool) { p.Zones = nil },
		"machineType is empty":         func(p *capacity.Pool) { p.MachineType = "" },
		"machineType is \"a/b\"":       func(p *capacity.Pool) { p.MachineType = "a/b" },
		"name is \"My pool\"":          func(p *capacity.Pool) { p.Name = "My pool" },
		"as a JSON object":             func(p *capacity.Pool) { p.Settings = nil },
		"more than one":                func(p *capacity.Pool) { p.Settings = append(p.Settings, "{}"...) },
	} {
		pool := newPool(t)
		edit(pool)
		require.ErrorContains(t, gce.CheckPool(pool), name)
	}
}
