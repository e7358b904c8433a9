package kubernetes

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/models/capacity"
)

// Settings are a pool's own settings for Kubernetes: a JSON object with these keys.
type Settings struct {
	// Template is the name of a PodTemplate in the namespace of control's configuration.
	Template string `json:"template"`
	// ScheduleSeconds is how long a pod may wait for a node after the cluster's scheduler found none, 1 to 3600. Then it
	// is deleted, and the pool has a stockout. 0 waits up to the pool's boot limit, for a cluster autoscaler to add a
	// node. The default is 60.
	ScheduleSeconds *int `json:"scheduleSeconds"`
}

const (
	defaultSchedule = 60
	mostSchedule    = 3600
)

// objectName is the name of an object of Kubernetes: a DNS subdomain.
var objectName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

const longestObjectName = 253

// CheckPool checks a pool's settings. It returns INVALID_INPUT for the first that is wrong. Whether the template exists
// is checked when a pod is created.
func CheckPool(pool *capacity.Pool) error {
	_, err := readSettings(pool)
	return err
}

// readSettings reads the settings of a pool, with defaults.
func readSettings(pool *capacity.Pool) (*Settings, error) {
	s := &Settings{}
	decoder := json.NewDecoder(bytes.NewReader(pool.Settings))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(s)
	if err == nil {
		if _, more := decoder.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("there is more than one JSON value")
		}
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return nil, apierror.Invalid("settings."+wrong.Field, "%s.", text.WrongType("settings.", wrong))
	}
	if err != nil {
		if name, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); unknown {
			return nil, apierror.Invalid("settings", "settings have no field %s: those of the provider kubernetes have template and "+
				"scheduleSeconds. Everything else of a pod is in the template, which the administrator of the cluster writes.",
				text.Clip(name, 64))
		}
		return nil, apierror.Invalid("settings",
			`settings must be a JSON object such as {"template": "l4-agent", "scheduleSeconds": 60}.`)
	}
	if s.ScheduleSeconds == nil {
		s.ScheduleSeconds = new(defaultSchedule)
	}
	switch {
	case s.Template == "":
		return nil, apierror.Invalid("settings.template",
			"settings.template is empty: name a PodTemplate that the administrator of the cluster has written.")
	case len(s.Template) > longestObjectName || !objectName.MatchString(s.Template):
		return nil, apierror.Invalid("settings.template",
			"settings.template is %q: it must be the name of a PodTemplate, of lower-case letters, digits, dots and hyphens.",
			text.Clip(s.Template, 64))
	case *s.ScheduleSeconds < 0 || *s.ScheduleSeconds > mostSchedule:
		return nil, apierror.Invalid("settings.scheduleSeconds", "settings.scheduleSeconds must be from 0 to %d.", mostSchedule)
	case len(pool.Zones) > 0:
		return nil, apierror.Invalid("zones",
			"zones must be empty: the nodeSelector or the affinity of the template says where pods run. Make a pool and a template for each zone.")
	}
	return s, nil
}

// patience is how long a pod may be unschedulable, or 0 without a limit.
func (s *Settings) patience() time.Duration { return time.Duration(*s.ScheduleSeconds) * time.Second }
