package gce

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/reelay/reelay/features/doctor"
	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"google.golang.org/api/cloudresourcemanager/v1"
	"google.golang.org/api/compute/v1"
	"google.golang.org/api/googleapi"
)

// Examiner checks whether the pools of the provider can have machines. It creates nothing.
type Examiner struct {
	Provider *Provider
	Pools    []*capacity.Pool
}

var _ doctor.Examiner = (*Examiner)(nil)

// examined is one pool that is being examined.
type examined struct {
	*machine

	provider *Provider
	service  *compute.Service
	findings []doctor.Finding
}

// Examine returns what each check found, for each pool of the provider.
func (e *Examiner) Examine(ctx context.Context) []doctor.Finding {
	var all []doctor.Finding
	for _, pool := range e.Pools {
		if pool.Provider == Name {
			all = append(all, e.examine(ctx, pool)...)
		}
	}
	return all
}

func (e *Examiner) examine(ctx context.Context, pool *capacity.Pool) []doctor.Finding {
	x := &examined{provider: e.Provider}
	var err error
	x.service, x.machine, err = e.Provider.of(pool)
	if fleet.ClassOf(err) == fleet.Invalid {
		x.machine = &machine{pool: pool}
		x.add("gce-settings", "The pool's settings are valid.", err, "Correct the pool, and apply it again.")
		return x.findings
	}
	if x.machine == nil || err != nil {
		x.machine = &machine{pool: pool}
		x.add("gce-credentials", "Google accepts the credentials.", err,
			"Set GOOGLE_APPLICATION_CREDENTIALS, or run on a machine with a service account.")
		return x.findings
	}
	if !x.credentials(ctx) {
		return x.findings // nothing else can be read
	}
	x.permissions(ctx)
	x.enrol()
	x.image(ctx)
	accelerator, count := x.machineTypes(ctx)
	x.disks(ctx)
	x.network(ctx)
	x.quota(ctx, accelerator, count)
	return x.findings
}

// add adds a finding. A check that only failed in passing is unknown, not broken.
func (x *examined) add(check, holds string, err error, fix string) {
	f := doctor.Finding{Check: check, Level: doctor.LevelOK, Holds: "Pool " + x.pool.Name + ": " + holds}
	if err != nil {
		f.Level, f.Found, f.Fix = doctor.LevelBroken, err.Error(), fix
		f.Matters = "The pool gets no machines."
		var refused *fleet.ProviderError
		if errors.As(err, &refused) && refused.Class == fleet.Transient {
			f.Level, f.Matters, f.Fix = doctor.LevelUnknown, "It could not be checked.", "Run the doctor again."
		}
	}
	x.findings = append(x.findings, f)
}

// read makes a call of the API.
func read[T any](ctx context.Context, x *examined, do func(...googleapi.CallOption) (T, error)) (T, error) {
	return call(ctx, x.provider, func(context.Context) (T, error) { return do() })
}

func (x *examined) credentials(ctx context.Context) bool {
	_, _, err := x.provider.instances(ctx, x.service, x.machine)
	fix := "Check settings.project, and that GOOGLE_APPLICATION_CREDENTIALS or the service account of this machine belongs to it. Give the account the role Compute Instance Admin (v1)."
	if strings.Contains(errorText(err), "has not been used in project") || strings.Contains(errorText(err), "accessNotConfigured") {
		fix = "Enable the API: gcloud services enable compute.googleapis.com --project " + x.s.Project
	}
	x.add("gce-credentials", "Compute Engine accepts the credentials, and lists the instances of "+x.s.Project+".", err, fix)
	return err == nil
}

// neededPermissions returns what the provider's calls need.
func (x *examined) neededPermissions() []string {
	needed := []string{
		"compute.disks.create", "compute.globalOperations.list", "compute.instances.create", "compute.instances.delete", "compute.instances.get",
		"compute.instances.list", "compute.instances.setLabels", "compute.instances.setMetadata", "compute.subnetworks.use",
		"compute.zoneOperations.get",
	}
	for permission, needs := range map[string]bool{
		"compute.instances.setServiceAccount":   x.s.ServiceAccount != "",
		"compute.instances.setTags":             len(x.s.NetworkTags) > 0,
		"compute.subnetworks.useExternalIp":     x.s.ExternalIP,
		"compute.instanceTemplates.useReadOnly": x.s.Template != "",
		"compute.disks.useReadOnly":             x.s.WeightsDisk != "",
		"compute.disks.setLabels":               x.s.Image != "",
		"compute.images.useReadOnly":            x.s.Image != "" && imageOf(x.s.Image, x.s.Project).project == x.s.Project,
	} {
		if needs {
			needed = append(needed, permission)
		}
	}
	slices.Sort(needed)
	return needed
}

func (x *examined) permissions(ctx context.Context) {
	const holds = "The account has the permissions that it needs."
	service, err := cloudresourcemanager.NewService(ctx, x.provider.config.options("/")...)
	if err != nil {
		x.add("gce-permissions", holds, err, "Set GOOGLE_APPLICATION_CREDENTIALS.")
		return
	}
	needed := x.neededPermissions()
	answer, err := read(ctx, x, service.Projects.TestIamPermissions(x.s.Project,
		&cloudresourcemanager.TestIamPermissionsRequest{Permissions: needed}).Context(ctx).Do)
	if err != nil {
		err = &fleet.ProviderError{Class: fleet.Transient,
			Err: fmt.Errorf("the permissions cannot be tested: %w; enable cloudresourcemanager.googleapis.com", err)}
	} else if missing := slices.DeleteFunc(needed, func(p string) bool { return slices.Contains(answer.Permissions, p) }); len(missing) > 0 {
		err = fmt.Errorf("these are missing: %s", strings.Join(missing, ", "))
	}
	x.add("gce-permissions", holds, err, "Give control's account a role that has them in the project: deploy/terraform makes one.")
}

func (x *examined) enrol() {
	_, _, err := x.provider.enrolment()
	x.add("gce-enrolment", "Machines get the address of the API, and a key to enrol with.", err,
		"Set REELAY_PUBLIC_URL and REELAY_AGENT_KEY_FILE, here and for control.")
}

// imagePath is an image, or the newest of a family, of a project.
type imagePath struct{ project, family, name string }

// imageOf reads the path of an image.
func imageOf(path, project string) imagePath {
	parts := strings.Split(path, "/")
	image := imagePath{project: project, name: parts[len(parts)-1]}
	if at := slices.Index(parts, "projects"); at >= 0 && at+1 < len(parts) {
		image.project = parts[at+1]
	}
	if len(parts) > 1 && parts[len(parts)-2] == "family" {
		image.family, image.name = image.name, ""
	}
	return image
}

func (x *examined) image(ctx context.Context) {
	for setting, path := range map[string]string{"image": x.s.Image, "weightsImage": x.s.WeightsImage} {
		if path == "" {
			continue
		}
		image := imageOf(path, x.s.Project)
		var found *compute.Image
		var err error
		if image.family != "" {
			found, err = read(ctx, x, x.service.Images.GetFromFamily(image.project, image.family).Context(ctx).Do)
		} else {
			found, err = read(ctx, x, x.service.Images.Get(image.project, image.name).Context(ctx).Do)
		}
		if err == nil && setting == "image" && found.DiskSizeGb > x.s.DiskGB {
			err = fmt.Errorf("the image needs %d GB, and settings.diskGB is %d", found.DiskSizeGb, x.s.DiskGB)
		}
		x.add("gce-image", "The image of settings."+setting+" exists and fits on its disk.", err, "Correct settings."+setting+
			" or settings.diskGB. List images: gcloud compute images list --project "+image.project)
	}
	if x.s.Template == "" {
		return
	}
	_, err := read(ctx, x, x.service.InstanceTemplates.Get(x.s.Project, lastPart(x.s.Template)).Context(ctx).Do)
	x.add("gce-image", "The template of settings.template exists.", err,
		"Correct settings.template. List templates: gcloud compute instance-templates list --project "+x.s.Project)
}

// machineTypes checks the machine type and the accelerator in all zones of the pool. It
// returns the type of GPU, and how many a machine has.
func (x *examined) machineTypes(ctx context.Context) (gpu string, count int64) {
	gpu, count = x.s.Accelerator.Type, x.s.Accelerator.Count
	for _, zone := range x.pool.Zones {
		if x.pool.MachineType != "" {
			found, err := read(ctx, x, x.service.MachineTypes.Get(x.s.Project, zone, x.pool.MachineType).Context(ctx).Do)
			if err == nil && gpu == "" && len(found.Accelerators) > 0 {
				gpu, count = found.Accelerators[0].GuestAcceleratorType, found.Accelerators[0].GuestAcceleratorCount
			}
			x.add("gce-machine-type", "Zone "+zone+" offers "+x.pool.MachineType+".", err,
				"Take the zone out of the pool, or choose another machine type: gcloud compute machine-types list --zones "+zone)
		}
		if x.s.Accelerator.Type != "" {
			_, err := read(ctx, x, x.service.AcceleratorTypes.Get(x.s.Project, zone, x.s.Accelerator.Type).Context(ctx).Do)
			x.add("gce-accelerator", "Zone "+zone+" offers "+x.s.Accelerator.Type+".", err,
				"Take the zone out of the pool, or choose another accelerator: gcloud compute accelerator-types list --filter zone:"+zone)
		}
	}
	return gpu, count
}

func (x *examined) disks(ctx context.Context) {
	if x.s.WeightsDisk == "" {
		return
	}
	for _, zone := range x.pool.Zones {
		_, err := read(ctx, x, x.service.Disks.Get(x.s.Project, zone, x.s.WeightsDisk).Context(ctx).Do)
		x.add("gce-weights", "Zone "+zone+" has the disk "+x.s.WeightsDisk+".", err, "Create the disk in the zone, or use settings.weightsImage.")
	}
}

func (x *examined) network(ctx context.Context) {
	cards := x.interfaces()
	if len(cards) == 0 {
		return // the template's
	}
	owner := func(path string) string { return imageOf(path, x.s.Project).project }
	var err error
	card := cards[0]
	if card.Subnetwork != "" {
		parts := strings.Split(card.Subnetwork, "/")
		_, err = read(ctx, x, x.service.Subnetworks.Get(owner(card.Subnetwork), x.pool.Region, parts[len(parts)-1]).Context(ctx).Do)
	} else {
		_, err = read(ctx, x, x.service.Networks.Get(owner(card.Network), lastPart(card.Network)).Context(ctx).Do)
	}
	x.add("gce-network", "The network exists.", err, "Correct settings.network and settings.subnetwork. A subnetwork must be in the region "+
		x.pool.Region+".")
}

// quotaNames are the names that quotas have for types of GPUs.
var quotaNames = map[string]string{
	"nvidia-l4": "NVIDIA_L4_GPUS", "nvidia-tesla-t4": "NVIDIA_T4_GPUS", "nvidia-tesla-v100": "NVIDIA_V100_GPUS",
	"nvidia-tesla-p100": "NVIDIA_P100_GPUS",
	"nvidia-tesla-p4":   "NVIDIA_P4_GPUS", "nvidia-tesla-a100": "NVIDIA_A100_GPUS", "nvidia-a100-80gb": "NVIDIA_A100_80GB_GPUS",
}

// quota checks the region's quota of GPUs. Spot machines have a quota of their own.
func (x *examined) quota(ctx context.Context, gpu string, count int64) {
	if gpu == "" {
		return
	}
	metric := quotaNames[gpu]
	if x.pool.CapacityClass == models.CapacitySpot {
		metric = "PREEMPTIBLE_" + metric
	}
	const fix = "Request a higher quota in Google's console (IAM & Admin, Quotas), or lower maxWorkers."
	region, err := read(ctx, x, x.service.Regions.Get(x.s.Project, x.pool.Region).Context(ctx).Do)
	if err != nil {
		x.add("gce-quota", "The region exists.", err, "Correct the region of the pool.")
		return
	}
	f := doctor.Finding{Check: "gce-quota", Level: doctor.LevelOK, Holds: fmt.Sprintf("Pool %s: the quota of %s allows maxWorkers machines.",
		x.pool.Name, x.pool.Region), Fix: fix}
	at := slices.IndexFunc(region.Quotas, func(q *compute.Quota) bool { return q.Metric == metric && quotaNames[gpu] != "" })
	needed := float64(count) * float64(x.pool.MaxWorkers)
	switch {
	case at < 0:
		f.Level, f.Found = doctor.LevelAdvice, fmt.Sprintf("The region lists no quota for %s.", gpu)
		f.Fix = "Look for the quota of this GPU in Google's console (IAM & Admin, Quotas). Newer types have quotas of their own."
	case region.Quotas[at].Limit < float64(max(count, 1)):
		f.Level, f.Found, f.Matters = doctor.LevelBroken, fmt.Sprintf("%s is %g.", metric, region.Quotas[at].Limit), "The pool gets no machines."
	case region.Quotas[at].Limit < needed:
		f.Level, f.Matters = doctor.LevelAdvice, "The pool cannot reach its maximum."
		f.Found = fmt.Sprintf("%s is %g, %g of it in use. %d machines need %g.", metric, region.Quotas[at].Limit, region.Quotas[at].Usage,
			x.pool.MaxWorkers, needed)
	default:
		f.Fix = ""
	}
	x.findings = append(x.findings, f)
}
