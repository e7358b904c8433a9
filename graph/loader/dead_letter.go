package loader

import (
	"context"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/models"
)

// Cause names the open or the resolved dead letters with one fingerprint.
type Cause struct {
	Fingerprint string
	Resolved    bool
}

// deadLettersExamined is how many dead letters of a cause are examined for their hosts.
const deadLettersExamined = 50

// failingHosts reads on which hosts the dead letters of each cause ended.
func failingHosts(r *query.Reads) fetch[Cause, []*models.FailingHost] {
	return func(ctx context.Context, causes []Cause) (map[Cause][]*models.FailingHost, error) {
		found := map[Cause][]*models.FailingHost{}
		for _, resolved := range []bool{false, true} {
			var asked []string
			for _, cause := range causes {
				if cause.Resolved == resolved {
					asked = append(asked, cause.Fingerprint)
				}
			}
			if len(asked) == 0 {
				continue
			}
			hosts, err := r.DeadLetters.FailingHosts(ctx, asked, resolved, deadLettersExamined)
			if err != nil {
				return nil, err
			}
			for fingerprint, list := range hosts {
				found[Cause{fingerprint, resolved}] = list
			}
		}
		return found, nil
	}
}
