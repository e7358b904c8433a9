package command

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

const (
	defaultLimit = 60 * time.Second
	maxSeconds   = 120
	// listLimit bounds list, which the scaler calls every few seconds for each pool.
	listLimit = 10 * time.Second
)

// Settings are the settings of a pool whose provider is command.
type Settings struct {
	// Program is the name of a file in the folder of programs.
	Program string `json:"program"`
	// Options is a JSON object for the program, or nil.
	Options json.RawMessage `json:"options"`
	// TimeoutSeconds limits a call, 1 to 120; 0 means 60. A list takes at most 10 seconds.
	TimeoutSeconds int `json:"timeoutSeconds"`
}

// programName excludes folders, hidden files and options.
var programName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// CheckPool checks a pool's settings. It returns INVALID_INPUT for the first that is wrong.
func CheckPool(pool *capacity.Pool) error {
	_, err := readSettings(pool)
	return err
}

func readSettings(pool *capacity.Pool) (*Settings, error) {
	s := &Settings{}
	decoder := json.NewDecoder(bytes.NewReader(pool.Settings))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(s); err != nil && err != io.EOF {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
			return nil, apierror.Invalid("settings."+wrong.Field, "%s.", text.WrongType("settings.", wrong))
		}
		if name, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); unknown {
			return nil, apierror.Invalid("settings",
				"settings have no field %s: those of the provider command have program, options and timeoutSeconds.", text.Clip(name, 64))
		}
		return nil, apierror.Invalid("settings",
			`settings must be a JSON object such as {"program": "mycloud", "options": {}, "timeoutSeconds": 60}.`)
	}
	switch options := bytes.TrimSpace(s.Options); {
	case !programName.MatchString(s.Program):
		return nil, apierror.Invalid("settings.program",
			"settings.program must be the name of a file in the folder of programs (REELAY_PROVIDERS): 1 to 64 letters, digits, dots, hyphens and underscores, without a folder.")
	case len(options) > 0 && options[0] != '{' && string(options) != "null":
		return nil, apierror.Invalid("settings.options", "settings.options must be a JSON object: the program reads it.")
	case s.TimeoutSeconds < 0 || s.TimeoutSeconds > maxSeconds:
		return nil, apierror.Invalid("settings.timeoutSeconds", "settings.timeoutSeconds must be from 1 to %d.", maxSeconds)
	}
	return s, nil
}

// optionsOf returns the options as a program gets them.
func optionsOf(s *Settings) json.RawMessage {
	if options := bytes.TrimSpace(s.Options); len(options) > 0 && string(options) != "null" {
		return s.Options
	}
	return json.RawMessage("{}")
}

// limit is how long a call may take.
func (s *Settings) limit(verb string) time.Duration {
	limit := defaultLimit
	if s.TimeoutSeconds > 0 {
		limit = time.Duration(s.TimeoutSeconds) * time.Second
	}
	if verb == verbList {
		limit = min(limit, listLimit)
	}
	return limit
}
