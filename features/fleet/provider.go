package fleet

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/reelay/reelay/models/capacity"
)

// ErrorClass classifies a provider's refusal for the scaler.
type ErrorClass string

const (
	// Stockout means that the provider has no such machine here now.
	Stockout ErrorClass = "STOCKOUT"
	// Quota means that the provider's customer has reached a quota.
	Quota ErrorClass = "QUOTA"
	// Permission means that the provider does not allow the call. Somebody must change that.
	Permission ErrorClass = "PERMISSION"
	// Invalid means that the provider refuses the instance as the pool describes it.
	// Somebody must change the pool.
	Invalid ErrorClass = "INVALID"
	// Transient means that the same call may succeed later.
	Transient ErrorClass = "TRANSIENT"
)

// ErrorClasses lists all classes.
var ErrorClasses = []ErrorClass{Stockout, Quota, Permission, Invalid, Transient}

// ProviderError is an error of a provider with its class.
type ProviderError struct {
	Class ErrorClass
	// ZonesAvailable are the zones that have the machine, if the provider names them
	// with a Stockout.
	ZonesAvailable []string
	Err            error
}

// Refuse returns a ProviderError with a message.
func Refuse(class ErrorClass, format string, args ...any) *ProviderError {
	return &ProviderError{Class: class, Err: fmt.Errorf(format, args...)}
}

func (e *ProviderError) Error() string { return e.Err.Error() }
func (e *ProviderError) Unwrap() error { return e.Err }

// ClassOf returns the class of a provider's error. An error without a class is Transient.
func ClassOf(err error) ErrorClass {
	var known *ProviderError
	if errors.As(err, &known) {
		return known.Class
	}
	return Transient
}

var (
	// ErrNoInstance means that no instance of that id is running.
	ErrNoInstance = errors.New("no such instance is running")
	// ErrProviderGone means that the provider is shutting down. Its pools stay as they are.
	ErrProviderGone = errors.New("the provider is shutting down")
)

// Instance is one machine as its provider lists it.
type Instance struct {
	// ID is the name that was passed to Create. The agent on the machine registers under it.
	ID    string
	Zone  string `json:",omitempty"`
	State InstanceState
	// CreatedAt is when the provider began to create it, or zero if the provider does not say.
	CreatedAt time.Time `json:",omitzero"`
	// EndedAt is when it ended, or zero if the provider does not say.
	EndedAt time.Time `json:",omitzero"`
	// Reclaimed means that the provider took the machine away; it did not end by itself.
	Reclaimed bool `json:",omitempty"`
	// Cause is why a machine ended that was not taken away, such as the last line of its agent, or what
	// one that boots waits for. It is "" if the provider does not say.
	Cause string `json:",omitempty"`
	// Err is why the instance could not be created, if that became known only after Create. It is
	// nil if the provider does not say.
	Err error `json:"-"`
}

// Lives reports whether the machine boots or runs.
func (i Instance) Lives() bool { return i.State == InstanceBooting || i.State == InstanceRunning }

// InstanceState is the state of a machine.
type InstanceState string

const (
	// InstanceBooting is a machine that is being created.
	InstanceBooting InstanceState = "BOOTING"
	// InstanceRunning is a machine that runs. Its agent may not have registered yet.
	InstanceRunning InstanceState = "RUNNING"
	// InstanceEnding is a machine that is being stopped or deleted.
	InstanceEnding InstanceState = "ENDING"
	// InstanceEnded is a machine that does not run any more. A provider may omit it.
	InstanceEnded InstanceState = "ENDED"
)

// NewInstanceID returns an id for a new machine of a pool: the pool's name, a hyphen, and eight
// random hexadecimal digits.
func NewInstanceID(pool string) string { return pool + "-" + uuid.NewString()[:8] }

// IsInstanceID reports whether an id has the form of [NewInstanceID] for a pool. The exact form keeps
// the machines of a pool apart from those of a pool with a longer name, and from those that people
// named after the pool.
func IsInstanceID(pool, id string) bool {
	rest, found := strings.CutPrefix(id, pool+"-")
	return found && instanceDigits.MatchString(rest)
}

var instanceDigits = regexp.MustCompile(`^[0-9a-f]{8}$`)

// Created is the result of creating one instance.
type Created struct {
	ID string
	// Zone is where the instance is, if the provider has zones.
	Zone string
	// Err is nil if the instance is being created or exists already.
	Err error
}

// Provider creates, lists and deletes the machines of pools. All calls may be repeated:
// an answer can be lost. Errors are [ProviderError]s; another error is Transient.
type Provider interface {
	// Create creates one instance per id, and returns one result per id, in order. It returns
	// before they have booted. An instance that already exists counts as created. requestID
	// identifies this batch: the provider passes it on where that makes a repeated call harmless.
	Create(ctx context.Context, pool *capacity.Pool, requestID string, ids []string) []Created
	// List returns all instances of the pool that boot, run or end, and those that ended recently
	// if the provider knows why. If several have the same id, the first one is kept and the others
	// are deleted. It may return ErrProviderGone.
	List(ctx context.Context, pool *capacity.Pool) ([]Instance, error)
	// Delete ends instances of the pool without notice. It returns an error, by id, for each one
	// that it could not end. An instance that no longer exists is no error.
	Delete(ctx context.Context, pool *capacity.Pool, instances []Instance) map[string]error
}

// Preemptor is a provider that can take an instance away as a cloud does.
type Preemptor interface {
	Provider
	// Preempt gives the instance notice and returns. The instance ends when the notice is over.
	// Preempt returns ErrNoInstance if the instance is not running.
	Preempt(ctx context.Context, pool *capacity.Pool, instance Instance, notice time.Duration) error
}

// Advisor is a provider that gives advice about spot machines.
type Advisor interface {
	Provider
	// Advise returns the provider's advice about machines like those of the pool.
	Advise(ctx context.Context, pool *capacity.Pool) (*Advice, error)
}

// Advice is a provider's advice about spot machines of one kind. What it does not say is nil or
// zero.
type Advice struct {
	// PricePerHourUSD is the list price of one machine per hour, and PriceSince the time from which
	// it applies.
	PricePerHourUSD *float64  `json:"pricePerHourUsd"`
	PriceSince      time.Time `json:"priceSince,omitzero"`
	// Preempted is the share of the recently ended machines that were preempted, 0 to 1. It is not
	// a rate per hour. PreemptedSince is the beginning of the time that it covers.
	Preempted      *float64  `json:"preempted"`
	PreemptedSince time.Time `json:"preemptedSince,omitzero"`
	// Obtainability is the probability of getting as many machines as the pool may have, 0 to 1.
	Obtainability *float64 `json:"obtainability"`
	// Uptime is how long most such machines are expected to run before a preemption.
	Uptime time.Duration `json:"uptime,omitempty"`
}

// Undone returns the result of a Create in which no instance was created.
func Undone(ids []string, err error) []Created {
	var all []Created
	for _, id := range ids {
		all = append(all, Created{ID: id, Err: err})
	}
	return all
}
