package text

import (
	"errors"
	"regexp"
	"time"
)

// timeShape is the form of a time in RFC 3339. time.Parse also accepts a comma before the
// fraction, an hour of one digit and an offset of 24 hours.
var timeShape = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

var errNoTime = errors.New("not a time of RFC 3339")

// ParseTime reads a time of RFC 3339 with any offset, and returns it in UTC.
func ParseTime(s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || !timeShape.MatchString(s) {
		return time.Time{}, errNoTime
	}
	return t.UTC(), nil
}
