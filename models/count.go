package models

import "slices"

// Count is the change of counters that belongs to changes of jobs: of the jobs' accounts, and
// of the lines that the jobs leave. Each account and each place occurs once.
type Count struct {
	Accounts []AccountCount
	Left     []LineCount
}

// AccountCount is the change of one account's counters.
type AccountCount struct {
	ID      AccountID `json:"id"`
	Queued  int       `json:"queued"`
	Running int       `json:"running"`
	// Bounded makes the write fail if the account's queue has no room for Queued more.
	Bounded bool `json:"bounded"`
	// Counted is the result, set by the write.
	Counted Counted `json:"-"`
}

// LineCount is the change of one account's counters in one line: Jobs queued jobs leave the line.
// GPUSeconds is the estimate for those of them that are leased.
type LineCount struct {
	AccountID AccountID `json:"account_id"`
	Line
	Jobs       int     `json:"jobs"`
	GPUSeconds float64 `json:"gpu_seconds"`
	// VirtualTime is the account's new virtual time, set by the write.
	VirtualTime float64 `json:"-"`
}

// countedAccount is the result for one account.
type countedAccount struct {
	ID        AccountID `json:"id"`
	Version   int64     `json:"version"`
	Capped    bool      `json:"capped"`
	WasCapped bool      `json:"was_capped"`
}

// leftLine is the result for one account's place in a line.
type leftLine struct {
	AccountID AccountID `json:"id"`
	Line
	VirtualTime float64 `json:"virtual_time"`
}

// note copies the results of the write into c.
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
