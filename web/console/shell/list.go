package shell

import (
	"errors"
	"net/url"
	"time"

	"github.com/reelay/reelay/internal/apierror"
)

// ListSize is the number of rows of a page of accounts, or of the audit log.
const ListSize = 50

// IsStalePage reports whether a list has no such page: its cursor is no longer valid, or
// belongs to another list.
func IsStalePage(err error) bool {
	var refused *apierror.Error
	return errors.As(err, &refused) && refused.Code == apierror.CodeInvalidInput && refused.Field == "after"
}

// ReadTimes reads the bounds of a list of acts. Times are in UTC, as browsers send them.
func ReadTimes(values url.Values, problems map[string]string, since, until *time.Time) {
	for name, to := range map[string]*time.Time{"since": since, "until": until} {
		value := values.Get(name)
		for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", time.RFC3339, time.DateOnly} {
			if at, err := time.Parse(layout, value); err == nil {
				*to = at
			}
		}
		if value != "" && to.IsZero() {
			problems[name] = "This must be a time in UTC, such as 2026-11-26T03:00."
		}
	}
}
