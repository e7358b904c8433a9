package gce

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
)

// Settings are a pool's own settings for Compute Engine: a JSON object with these keys.
type Settings struct {
	// Project is the id of the project that the machines belong to.
	Project string `json:"project"`
	// Template is an instance template to start from, such as
	// projects/p/global/instanceTemplates/t. Other settings replace its parts; labels,
	// metadata and scheduling are always replaced.
	Template string `json:"template"`
	// Image is the image of the boot disk, such as projects/p/global/images/family/f.
	Image string `json:"image"`
	// DiskGB is the size of the boot disk in GB, 10 to 65536. The default is 100.
	DiskGB int64 `json:"diskGB"`
	// DiskType is the type of the boot disk. The default is pd-balanced. Machine types
	// of newer series need hyperdisk-balanced.
	DiskType string `json:"diskType"`
	// WeightsDisk is the name of a disk that exists in each zone. Each machine attaches it
	// read-only, and its container sees it at /weights.
	WeightsDisk string `json:"weightsDisk"`
	// WeightsImage is an image instead, of which each machine gets a disk of its own.
	WeightsImage string `json:"weightsImage"`
	// Accelerator is the GPU to attach, if the machine type includes none.
	Accelerator Accelerator `json:"accelerator"`
	// Container is the image of a container that runs the agent. The machine's image
	// needs Docker and, for GPUs, NVIDIA's container toolkit.
	Container string `json:"container"`
	// StartupScript is a script of the operator's own instead.
	StartupScript string `json:"startupScript"`
	// Environment holds further variables for the agent, such as REELAY_AGENT_RUNTIME.
	// They are no place for secrets.
	Environment map[string]string `json:"environment"`
	// Metadata holds further attributes of the machine, such as install-nvidia-driver. They
	// are no place for secrets.
	Metadata map[string]string `json:"metadata"`
	// Network and Subnetwork are names or paths. The default is the network default.
	Network    string `json:"network"`
	Subnetwork string `json:"subnetwork"`
	// ExternalIP gives each machine a public address. Without it, the network needs a
	// route to the API, such as Cloud NAT.
	ExternalIP bool `json:"externalIP"`
	// NetworkTags are the machine's tags for firewall rules.
	NetworkTags []string `json:"networkTags"`
	// ServiceAccount is the email of the account that the machine runs as. If it is
	// empty, the machine has none.
	ServiceAccount string `json:"serviceAccount"`
	// Reservation is the name of a reservation, or the path of one that another project shares
	// (projects/p/reservations/r). Machines are made in it only. Spot machines cannot be.
	Reservation string `json:"reservation"`
	// MaxRunSeconds is how long a machine can exist, 600 to 10368000 (120 days). Compute
	// Engine deletes it then, even if Reelay is gone. The default is one day.
	MaxRunSeconds int64 `json:"maxRunSeconds"`
	// PreemptionNoticeSeconds is the notice to ask for, 0 to 120. The default is 120.
	// On-demand machines get none.
	PreemptionNoticeSeconds *int64 `json:"preemptionNoticeSeconds"`
}

// Accelerator is a kind of GPU and how many of them a machine gets.
type Accelerator struct {
	// Type is such as nvidia-tesla-t4.
	Type string `json:"type"`
	// Count is 1 to 16. The default is 1.
	Count int64 `json:"count"`
}

const (
	defaultDiskGB        = 100
	defaultDiskType      = "pd-balanced"
	defaultMaxRun        = 24 * 60 * 60
	leastMaxRun          = 600
	mostMaxRun           = 120 * 24 * 60 * 60
	longestNotice        = 120
	longestScript        = 200 << 10 // Compute Engine takes 256 KiB per value
	mostVariables        = 64
	longestName          = 63
	lengthOfInstanceTail = 9 // a dash and eight digits after the pool's name
)

var (
	zonePattern        = regexp.MustCompile(`^[a-z]+-[a-z]+[0-9]+-[a-z]$`)
	projectPattern     = regexp.MustCompile(`^([a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]$`)
	namePattern        = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$`)
	pathPattern        = regexp.MustCompile(`^[A-Za-z0-9:/._-]{1,400}$`)
	wordPattern        = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)
	emailPattern       = regexp.MustCompile(`^[A-Za-z0-9._-]+@[A-Za-z0-9.-]+$`)
	imagePattern       = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9:/._@-]{0,400}$`)
	reservationPattern = regexp.MustCompile(`^(projects/[a-z][a-z0-9-]{4,28}[a-z0-9]/reservations/)?[a-z][a-z0-9-]{0,62}$`)
	attributeName      = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)
	variablePattern    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// ReadSettings reads the settings of a pool and fills in the defaults. It returns
// INVALID_INPUT for keys that it does not know.
func ReadSettings(pool *capacity.Pool) (*Settings, error) {
	var s Settings
	decoder := json.NewDecoder(bytes.NewReader(pool.Settings))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&s)
	if err == nil {
		if _, more := decoder.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("there is more than one JSON value")
		}
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return nil, apierror.Invalid("settings."+wrong.Field, "%s.", text.WrongType("settings.", wrong))
	}
	if name, ok := strings.CutPrefix(errorText(err), "json: unknown field "); ok {
		name = strings.Trim(name, `"`)
		return nil, apierror.Invalid("settings."+name, "settings.%s is not a setting of the provider gce.", name)
	}
	if err != nil {
		return nil, apierror.Invalid("settings", "The provider gce needs settings, as a JSON object: %v.", err)
	}
	s.fill()
	return &s, nil
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func (s *Settings) fill() {
	if s.DiskGB == 0 {
		s.DiskGB = defaultDiskGB
	}
	if s.DiskType == "" {
		s.DiskType = defaultDiskType
	}
	if s.MaxRunSeconds == 0 {
		s.MaxRunSeconds = defaultMaxRun
	}
	if s.Accelerator.Type != "" && s.Accelerator.Count == 0 {
		s.Accelerator.Count = 1
	}
	if s.PreemptionNoticeSeconds == nil {
		s.PreemptionNoticeSeconds = new(int64(longestNotice))
	}
}

// CheckPool checks whether the provider can make machines for the pool. It returns
// INVALID_INPUT, which names the setting, what is wrong with it, and what is allowed.
func CheckPool(pool *capacity.Pool) error {
	s, err := ReadSettings(pool)
	if err != nil {
		return err
	}
	if !namePattern.MatchString(pool.Name) || len(pool.Name) > longestName-lengthOfInstanceTail {
		return apierror.Invalid("name",
			"name is %q: machines of Compute Engine are named after their pool. It must be up to %d lower-case letters, digits and dashes, and begin with a letter.",
			pool.Name, longestName-lengthOfInstanceTail)
	}
	if err := checkZones(pool); err != nil {
		return err
	}
	if pool.MachineType == "" && s.Template == "" {
		return apierror.Invalid("machineType", "machineType is empty: name a machine type such as g2-standard-4, or set settings.template.")
	}
	if pool.MachineType != "" && !wordPattern.MatchString(pool.MachineType) {
		return apierror.Invalid("machineType", "machineType is %q: it must be a name such as g2-standard-4.", pool.MachineType)
	}
	if s.Reservation != "" && pool.CapacityClass == models.CapacitySpot {
		return apierror.Invalid("settings.reservation", "settings.reservation is set, but the pool is of the class SPOT: spot machines use no reservation. "+
			"Set capacityClass to ON_DEMAND.")
	}
	return s.check()
}

func checkZones(pool *capacity.Pool) error {
	if len(pool.Zones) == 0 {
		return apierror.Invalid("zones", "zones is empty: list the zones to try, in order, such as %s-a.", pool.Region)
	}
	for i, zone := range pool.Zones {
		if !zonePattern.MatchString(zone) || !strings.HasPrefix(zone, pool.Region+"-") {
			return apierror.Invalid("zones", "zones has %q: it must be a zone of the pool's region %s, such as %s-a.", zone, pool.Region,
				pool.Region)
		}
		if slices.Contains(pool.Zones[:i], zone) {
			return apierror.Invalid("zones", "zones has %s twice.", zone)
		}
	}
	return nil
}

func (s *Settings) check() error {
	for _, c := range []struct {
		name, value string
		pattern     *regexp.Regexp
		may         string
	}{
		{"project", s.Project, projectPattern, "the id of a project, such as my-project"},
		{"template", s.Template, pathPattern, "the path of an instance template, such as projects/my-project/global/instanceTemplates/worker"},
		{"image", s.Image, pathPattern, "the path of an image, such as projects/my-project/global/images/family/worker"},
		{"diskType", s.DiskType, wordPattern, "a type of disk, such as pd-balanced"},
		{"weightsDisk", s.WeightsDisk, namePattern, "the name of a disk"},
		{"weightsImage", s.WeightsImage, pathPattern, "the path of an image"},
		{"accelerator.type", s.Accelerator.Type, wordPattern, "a type of accelerator, such as nvidia-tesla-t4"},
		{"container", s.Container, imagePattern, "the name of a container image"},
		{"network", s.Network, pathPattern, "the name or path of a network"},
		{"subnetwork", s.Subnetwork, pathPattern, "the name or path of a subnetwork"},
		{"serviceAccount", s.ServiceAccount, emailPattern, "the email of a service account"},
		{"reservation", s.Reservation, reservationPattern, "the name of a reservation, or a path such as projects/my-project/reservations/h100"},
	} {
		if c.value != "" && !c.pattern.MatchString(c.value) {
			return apierror.Invalid("settings."+c.name, "settings.%s is %q: it must be %s.", c.name, c.value, c.may)
		}
	}
	for _, tag := range s.NetworkTags {
		if !namePattern.MatchString(tag) {
			return apierror.Invalid("settings.networkTags", "settings.networkTags has %q: a tag is lower-case letters, digits and dashes.", tag)
		}
	}
	if err := s.checkNumbers(); err != nil {
		return err
	}
	return s.checkParts()
}

func (s *Settings) checkNumbers() error {
	for _, c := range []struct {
		name               string
		value, least, most int64
	}{
		{"diskGB", s.DiskGB, 10, 65536},
		{"maxRunSeconds", s.MaxRunSeconds, leastMaxRun, mostMaxRun},
		{"preemptionNoticeSeconds", *s.PreemptionNoticeSeconds, 0, longestNotice},
		{"accelerator.count", s.Accelerator.Count, 0, 16},
	} {
		if c.value < c.least || c.value > c.most {
			return apierror.Invalid("settings."+c.name, "settings.%s is %d: it must be from %d to %d.", c.name, c.value, c.least, c.most)
		}
	}
	return nil
}

// checkParts checks the settings that need or exclude each other.
func (s *Settings) checkParts() error {
	switch {
	case s.Project == "":
		return apierror.Invalid("settings.project", "settings.project is empty: it must be the id of the project for the machines.")
	case s.Image == "" && s.Template == "":
		return apierror.Invalid("settings.image", "settings.image is empty: name an image for the boot disk, or set settings.template.")
	case s.Container != "" && s.StartupScript != "":
		return apierror.Invalid("settings.startupScript", "settings.startupScript and settings.container are both set: set one of them.")
	case s.WeightsDisk != "" && s.WeightsImage != "":
		return apierror.Invalid("settings.weightsImage", "settings.weightsImage and settings.weightsDisk are both set: set one of them.")
	case (s.WeightsDisk != "" || s.WeightsImage != "") && s.Image == "":
		return apierror.Invalid("settings.image", "settings.image is empty: a disk for weights needs it. A template has its own disks.")
	case s.Accelerator.Count > 0 && s.Accelerator.Type == "":
		return apierror.Invalid("settings.accelerator.type", "settings.accelerator.type is empty, but settings.accelerator.count is not.")
	case len(s.StartupScript) > longestScript:
		return apierror.Invalid("settings.startupScript", "settings.startupScript has %d bytes: at most %d are allowed.", len(s.StartupScript),
			longestScript)
	case len(s.Metadata) > mostVariables:
		return apierror.Invalid("settings.metadata", "settings.metadata has %d attributes: at most %d are allowed.", len(s.Metadata),
			mostVariables)
	case len(s.Environment) > mostVariables:
		return apierror.Invalid("settings.environment", "settings.environment has %d variables: at most %d are allowed.", len(s.Environment),
			mostVariables)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Metadata)) {
		if !attributeName.MatchString(name) || strings.HasPrefix(name, "reelay-") || name == "startup-script" || name == "shutdown-script" ||
			len(s.Metadata[name]) > longestScript {
			return apierror.Invalid("settings.metadata",
				"settings.metadata has %q: a name is up to 128 letters, digits, dashes and underscores, a value has up to %d bytes, and reelay-…, startup-script and shutdown-script are set by Reelay.", text.Clip(name, 64), longestScript)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Environment)) {
		if !variablePattern.MatchString(name) || name == "REELAY_API_KEY" || strings.ContainsAny(s.Environment[name], "\r\n\x00") {
			return apierror.Invalid("settings.environment",
				"settings.environment has %q: a name is letters, digits and underscores, a value is one line, and the enrolment key is set with REELAY_AGENT_KEY_FILE.", name)
		}
	}
	return nil
}
