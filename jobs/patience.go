package jobs

import "time"

// leasePatience is how long a batch of claims or of calls over leases waits for a
// row: they wait for each other's accounts all the time, and a batch that gives up
// stands in the way of the next.
const leasePatience = 250 * time.Millisecond

// patienceOf is how long a batch waits for a row that somebody else holds: any
// time, if nobody waits behind it.
func patienceOf(alone bool) time.Duration {
	if alone {
		return 0
	}
	return leasePatience
}
