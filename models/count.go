package models

import "slices"

// Count is what changes of jobs do to counters: of their accounts, and of the lines
// that they leave. Each account and each place is there once.
type Count struct {
	Accounts []AccountCount
	Left     []LineCount
}

// AccountCount is by how much an account's counters change.
type AccountCount struct {
	ID      AccountID `json:"id"`
	Queued  int       `json:"queued"`
	Running int       `json:"running"`
	// Bounded tells that the account must have room in its queue for Queued more.
	Bounded bool `json:"bounded"`
	// Counted is what that did, once it is written.
	Counted Counted `json:"-"`
}

// LineCount is how many queued jobs leave an account's place in a line, and the
// estimated GPU seconds of those that are given to workers.
type LineCount struct {
	AccountID AccountID `json:"account_id"`
	Line
	Jobs       int     `json:"jobs"`
	GPUSeconds float64 `json:"gpu_seconds"`
	// VirtualTime is the account's new one, once it is written.
	VirtualTime float64 `json:"-"`
}

// countedAccount is an account as the statement counted on it.
type countedAccount struct {
	ID        AccountID `json:"id"`
	Version   int64     `json:"version"`
	Capped    bool      `json:"capped"`
	WasCapped bool      `json:"was_capped"`
}

// leftLine is an account's place in a line that jobs left.
type leftLine struct {
	AccountID AccountID `json:"id"`
	Line
	VirtualTime float64 `json:"virtual_time"`
}

// note notes what became of the counters.
func (c *Count) note(accounts []countedAccount, left []leftLine) {
	for _, row := range accounts {
		i := slices.IndexFunc(c.Accounts, func(a AccountCount) bool { return a.ID == row.ID })
		c.Accounts[i].Counted = Counted{Version: row.Version, Capped: row.Capped, WasCapped: row.WasCapped}
	}
	for _, row := range left {
		i := slices.IndexFunc(c.Left, func(l LineCount) bool { return l.AccountID == row.AccountID && l.Line == row.Line })
		c.Left[i].VirtualTime = row.VirtualTime
	}
}
