package query

import (
	"fmt"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
)

// WaitingCode is a reason why a job waits.
type WaitingCode string

const (
	WaitNotBefore         WaitingCode = "NOT_BEFORE"
	WaitDependency        WaitingCode = "DEPENDENCY"
	WaitInput             WaitingCode = "INPUT"
	WaitApproval          WaitingCode = "APPROVAL"
	WaitBudget            WaitingCode = "BUDGET"
	WaitHalted            WaitingCode = "HALTED"
	WaitQueuePaused       WaitingCode = "QUEUE_PAUSED"
	WaitNoPool            WaitingCode = "NO_POOL"
	WaitPoolPaused        WaitingCode = "POOL_PAUSED"
	WaitAccountRunningCap WaitingCode = "ACCOUNT_RUNNING_CAP"
	WaitCapacityBooting   WaitingCode = "CAPACITY_BOOTING"
	WaitNotBooting        WaitingCode = "CAPACITY_NOT_BOOTING"
	WaitCapacityExhausted WaitingCode = "CAPACITY_EXHAUSTED"
	WaitPrice             WaitingCode = "PRICE"
	WaitQueueAhead        WaitingCode = "QUEUE_AHEAD"
	WaitSubmitUnknown     WaitingCode = "SUBMIT_UNKNOWN"
	WaitProviderSlot      WaitingCode = "PROVIDER_SLOT"
	WaitProviderAway      WaitingCode = "PROVIDER_AWAY"
)

// waitingCodes lists them, the most informative first.
var waitingCodes = []WaitingCode{
	WaitDependency, WaitInput, WaitApproval, WaitSubmitUnknown, WaitNotBefore, WaitBudget, WaitHalted, WaitQueuePaused, WaitNoPool, WaitPoolPaused,
	WaitAccountRunningCap, WaitNotBooting,
	WaitProviderAway, WaitProviderSlot, WaitCapacityBooting, WaitPrice, WaitCapacityExhausted, WaitQueueAhead,
}

// WaitingReason is one reason why a job waits, in sentences for people. Until is when it ends, if
// that is known.
type WaitingReason struct {
	Code WaitingCode
	// Message is the cause, Consequence what follows from it for the job, and Change what would change it.
	Message, Consequence, Change string
	Until                        time.Time
	// Cause is what a machine or its provider says, which is for operators only; or "".
	Cause string
	// Stop says which operator stopped the starts, which is for operators only; or nil.
	Stop *Stop
}

// Stop is an operator's pause of a queue, or a halt of all leases.
type Stop struct {
	// What is what is stopped, such as "The pro lane is paused".
	What string
	// Lane is the paused lane, or "" for a halt.
	Lane models.Tier
	// By is the name of the key, or the address of the member.
	By string
	At time.Time
	// Reason is what the operator wrote, or "".
	Reason string
}

// Because is ": " and the reason with a full stop, or just that.
func (s *Stop) Because() string {
	if s.Reason == "" {
		return "."
	}
	return ": " + strings.TrimSuffix(s.Reason, ".") + "."
}

// For is the message for a caller: operators and viewers also read who stopped the starts, when and
// why.
func (w WaitingReason) For(p jobs.Principal) string {
	if p.RequireViewer() != nil {
		return w.Message
	}
	return w.forOperators()
}

func (w WaitingReason) forOperators() string {
	if w.Stop == nil {
		return w.Message
	}
	return fmt.Sprintf("%s by %s since %s%s", w.Stop.What, w.Stop.By, text.Moment(w.Stop.At.UTC(), time.Now()), w.Stop.Because())
}

// Whole is the message for operators, with the cause.
func (w WaitingReason) Whole() string {
	if w.Cause == "" {
		return w.forOperators()
	}
	says := " The newest: "
	if w.Code != WaitNotBooting {
		says = " It says: "
	}
	return w.forOperators() + says + w.Cause
}

// NothingHolds is the text for a job that waits without a WaitingReason.
const NothingHolds = "Nothing holds it back. It is about to proceed."
