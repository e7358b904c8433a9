package cron

import (
	"regexp"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
)

const (
	// MaxZone bounds the name of a time zone, in bytes.
	MaxZone = 64
	// ZoneForm is a regular expression for names of time zones. It matches names of the IANA database, but not the files
	// beside it: localtime and posixrules are the machine's own, and the zones of right/ count leap seconds.
	ZoneForm = `^[A-Z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$`
)

var zoneName = regexp.MustCompile(ZoneForm)

// CheckZone returns INVALID_INPUT in a field for what is not a name of the IANA database, such as offsets and the
// process's own zone.
func CheckZone(field, name string) error {
	known := len(name) <= MaxZone && name != "Local" && name != "Factory" && zoneName.MatchString(name)
	if known {
		_, err := time.LoadLocation(name)
		known = err == nil
	}
	if known {
		return nil
	}
	return apierror.Invalid(field,
		"%q is no time zone of the IANA database: use a name such as Europe/Berlin or UTC. A fixed offset has a name, too: Etc/GMT-2 is two hours ahead of UTC.", text.Clip(name, 64))
}
