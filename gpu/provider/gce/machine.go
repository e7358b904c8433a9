package gce

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"google.golang.org/api/compute/v1"
)

// startup is the script of a machine with settings.container. It reads everything else
// from the metadata of its machine.
//
//go:embed startup.sh
var startup string

// Labels that tie a machine to the pool and to the installation of Reelay.
const (
	labelPool    = "reelay-pool"
	labelCluster = "reelay-cluster"
)

// Keys of the machine's metadata.
const (
	// metaEnvironment has the agent's settings, one NAME=value per line.
	metaEnvironment = "reelay-environment"
	// metaKey has the enrolment key. Every process on the machine, and everybody with
	// compute.instances.get in the project, can read it.
	metaKey = "reelay-enrolment-key"
	// metaContainer and metaWeights are for the script.
	metaContainer = "reelay-container"
	metaWeights   = "reelay-weights"
)

// weightsDevice is the name of the disk of weights: /dev/disk/by-id/google-reelay-weights.
const weightsDevice = "reelay-weights"

// Label encodes text as the value of a label, which has at most 63 lower-case letters,
// digits, dashes and underscores. Different texts get different labels.
func Label(text string) string {
	var label strings.Builder
	for _, b := range []byte(text) {
		if b >= 'a' && b <= 'z' || b >= '0' && b <= '9' || b == '-' {
			label.WriteByte(b)
			continue
		}
		fmt.Fprintf(&label, "_%02x", b)
	}
	if encoded := label.String(); len(encoded) <= longestName {
		return encoded
	}
	sum := nameUUID("label", text).String()
	return strings.TrimRight(label.String()[:longestName-len(sum)-1], "_-") + "-" + sum
}

// machine is one pool's machines as the API describes them. Zone, where it is part of a
// path, comes later.
type machine struct {
	config *Config
	pool   *capacity.Pool
	s      *Settings
	// withoutNotice means that Compute Engine refused the notice of the settings.
	withoutNotice bool
	// enrolment has the variables with which the agent reaches the API, except key.
	enrolment map[string]string
	key       string
}

// notice is the notice of a preemption to ask for, in seconds. 0 leaves it at the default.
func (m *machine) notice() int64 {
	if m.withoutNotice || m.pool.CapacityClass != models.CapacitySpot {
		return 0
	}
	return *m.s.PreemptionNoticeSeconds
}

func (m *machine) labels() map[string]string {
	return map[string]string{labelPool: string(m.pool.ID), labelCluster: Label(m.config.Cluster)}
}

// scheduling says how the machine ends. Machines with GPUs cannot move to another host.
func (m *machine) scheduling() *compute.Scheduling {
	s := &compute.Scheduling{
		ProvisioningModel:         "STANDARD",
		OnHostMaintenance:         "TERMINATE",
		AutomaticRestart:          new(false),
		InstanceTerminationAction: "DELETE",
		MaxRunDuration:            &compute.Duration{Seconds: m.s.MaxRunSeconds},
	}
	if m.pool.CapacityClass == models.CapacitySpot {
		s.ProvisioningModel = "SPOT"
	}
	if notice := m.notice(); notice > 0 {
		s.PreemptionNoticeDuration = &compute.Duration{Seconds: notice}
	}
	return s
}

// metadata is the same for all machines of a pool, because bulkInsert takes one for all.
// A machine reads its name and its zone from the metadata server.
func (m *machine) metadata() *compute.Metadata {
	values := map[string]string{metaEnvironment: m.environment()}
	if m.key != "" {
		values[metaKey] = m.key
	}
	maps.Copy(values, m.s.Metadata)
	switch {
	case m.s.StartupScript != "":
		values["startup-script"] = m.s.StartupScript
	case m.s.Container != "":
		values["startup-script"] = startup
		values["shutdown-script"] = shutdown
		values[metaContainer] = m.s.Container
	}
	if m.s.WeightsDisk != "" || m.s.WeightsImage != "" {
		values[metaWeights] = "/dev/disk/by-id/google-" + weightsDevice
	}
	var items []*compute.MetadataItems
	for _, name := range slices.Sorted(maps.Keys(values)) {
		items = append(items, &compute.MetadataItems{Key: name, Value: new(values[name])})
	}
	return &compute.Metadata{Items: items}
}

// shutdownSeconds is how long Compute Engine lets a Spot machine shut down.
const shutdownSeconds = 30

// shutdown gives the agent its notice where the machine is stopped in another way than by
// preemption, which the agent watches for.
const shutdown = "#!/bin/sh\nexec docker stop --time 25 reelay-agent\n"

// environment is what the agent reads, except its key, its instance id and its zone.
func (m *machine) environment() string {
	values := maps.Clone(m.s.Environment)
	if values == nil {
		values = map[string]string{}
	}
	maps.Copy(values, m.enrolment)
	arguments := fleet.AgentArguments(Name, m.pool, "")
	for i := 0; i+1 < len(arguments); i += 2 {
		if flag := strings.TrimPrefix(arguments[i], "--"); flag != "instance-id" {
			values["REELAY_AGENT_"+strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))] = arguments[i+1]
		}
	}
	// The machine is stopped at the end of the notice, and gone the usual time later.
	values["REELAY_AGENT_NOTICE"] = fmt.Sprintf("%ds", m.notice()+shutdownSeconds)
	var lines strings.Builder
	for _, name := range slices.Sorted(maps.Keys(values)) {
		lines.WriteString(name + "=" + values[name] + "\n")
	}
	return lines.String()
}

func (m *machine) disks(zone string) []*compute.AttachedDisk {
	if m.s.Image == "" {
		return nil // the template's
	}
	diskType := func(name string) string { return "zones/" + zone + "/diskTypes/" + name }
	disks := []*compute.AttachedDisk{{
		Boot: true, AutoDelete: true,
		InitializeParams: &compute.AttachedDiskInitializeParams{
			SourceImage: m.s.Image, DiskSizeGb: m.s.DiskGB, DiskType: diskType(m.s.DiskType), Labels: m.labels(),
		},
	}}
	switch {
	case m.s.WeightsDisk != "":
		disks = append(disks, &compute.AttachedDisk{
			DeviceName: weightsDevice, Mode: "READ_ONLY",
			Source: "projects/" + m.s.Project + "/zones/" + zone + "/disks/" + m.s.WeightsDisk,
		})
	case m.s.WeightsImage != "":
		disks = append(disks, &compute.AttachedDisk{
			DeviceName: weightsDevice, AutoDelete: true,
			InitializeParams: &compute.AttachedDiskInitializeParams{
				SourceImage: m.s.WeightsImage, DiskType: diskType(m.s.DiskType), Labels: m.labels(),
			},
		})
	}
	return disks
}

func (m *machine) accelerators(zone string) []*compute.AcceleratorConfig {
	if m.s.Accelerator.Type == "" {
		return nil // part of the machine type, or none
	}
	return []*compute.AcceleratorConfig{{
		AcceleratorType:  "zones/" + zone + "/acceleratorTypes/" + m.s.Accelerator.Type,
		AcceleratorCount: m.s.Accelerator.Count,
	}}
}

// interfaces is nil if the template says which network to use.
func (m *machine) interfaces() []*compute.NetworkInterface {
	if m.s.Template != "" && m.s.Network == "" && m.s.Subnetwork == "" {
		return nil
	}
	card := &compute.NetworkInterface{}
	if m.s.Subnetwork != "" {
		card.Subnetwork = pathTo(m.s.Subnetwork, "regions/"+m.pool.Region+"/subnetworks/")
	}
	if m.s.Network != "" || m.s.Subnetwork == "" {
		network := m.s.Network
		if network == "" {
			network = "default"
		}
		card.Network = pathTo(network, "global/networks/")
	}
	if m.s.ExternalIP {
		card.AccessConfigs = []*compute.AccessConfig{{Name: "External NAT", Type: "ONE_TO_ONE_NAT"}}
	}
	return []*compute.NetworkInterface{card}
}

// pathTo returns a path as it is, and a name below the folder.
func pathTo(name, folder string) string {
	if strings.Contains(name, "/") {
		return name
	}
	return folder + name
}

// serviceAccounts gives the machine all that the account's roles allow.
func (m *machine) serviceAccounts() []*compute.ServiceAccount {
	if m.s.ServiceAccount == "" {
		return nil
	}
	return []*compute.ServiceAccount{{Email: m.s.ServiceAccount, Scopes: []string{"https://www.googleapis.com/auth/cloud-platform"}}}
}

// reservation lets the machine be made in the pool's reservation only.
func (m *machine) reservation() *compute.ReservationAffinity {
	if m.s.Reservation == "" {
		return nil
	}
	return &compute.ReservationAffinity{ConsumeReservationType: "SPECIFIC_RESERVATION", Key: "compute.googleapis.com/reservation-name",
		Values: []string{m.s.Reservation}}
}

func (m *machine) tags() *compute.Tags {
	if len(m.s.NetworkTags) == 0 {
		return nil
	}
	return &compute.Tags{Items: m.s.NetworkTags}
}

// instance is the body of instances.insert.
func (m *machine) instance(zone, name string) *compute.Instance {
	i := &compute.Instance{
		Name: name, Labels: m.labels(), Scheduling: m.scheduling(), Metadata: m.metadata(), Disks: m.disks(zone),
		GuestAccelerators: m.accelerators(zone), NetworkInterfaces: m.interfaces(), ServiceAccounts: m.serviceAccounts(), Tags: m.tags(),
		ReservationAffinity: m.reservation(),
	}
	if m.pool.MachineType != "" {
		i.MachineType = "zones/" + zone + "/machineTypes/" + m.pool.MachineType
	}
	return i
}

// bulk is the body of instances.bulkInsert. It takes plain names where an instance takes
// paths in its zone. As many machines as there are get created.
func (m *machine) bulk(zone string, names []string) *compute.BulkInsertInstanceResource {
	properties := &compute.InstanceProperties{
		Labels: m.labels(), Scheduling: m.scheduling(), Metadata: m.metadata(), Disks: m.disks(zone),
		NetworkInterfaces: m.interfaces(), ServiceAccounts: m.serviceAccounts(), Tags: m.tags(), MachineType: m.pool.MachineType,
		ReservationAffinity: m.reservation(),
	}
	for _, disk := range properties.Disks {
		if disk.InitializeParams != nil {
			disk.InitializeParams.DiskType = disk.InitializeParams.DiskType[strings.LastIndex(disk.InitializeParams.DiskType, "/")+1:]
		}
	}
	if m.s.Accelerator.Type != "" {
		properties.GuestAccelerators = []*compute.AcceleratorConfig{{AcceleratorType: m.s.Accelerator.Type,
			AcceleratorCount: m.s.Accelerator.Count}}
	}
	all := map[string]compute.BulkInsertInstanceResourcePerInstanceProperties{}
	for _, name := range names {
		all[name] = compute.BulkInsertInstanceResourcePerInstanceProperties{Name: name}
	}
	return &compute.BulkInsertInstanceResource{
		Count: int64(len(names)), MinCount: 1, InstanceProperties: properties,
		PerInstanceProperties: all, SourceInstanceTemplate: m.s.Template,
	}
}
