package fleet

import (
	"context"
	"errors"
	"time"

	"github.com/reelay/reelay/models"
)

// The errors of a provider that callers tell apart. Any other error is transient:
// the same call may succeed later.
var (
	// ErrNoCapacity means that the provider has no such machine to give now.
	ErrNoCapacity = errors.New("the provider has no capacity")
	// ErrQuota means that the provider's customer has reached a quota.
	ErrQuota = errors.New("the quota at the provider is reached")
	// ErrInvalidInstance means that the provider refuses the instance as described.
	// Repeating the call cannot help.
	ErrInvalidInstance = errors.New("the provider refuses this instance")
	// ErrNoInstance means that no instance of that id is running.
	ErrNoInstance = errors.New("no such instance is running")
	// ErrProviderGone means that the provider is shutting down. Its pools are left
	// as they are.
	ErrProviderGone = errors.New("the provider is shutting down")
)

// Instance is one machine as its provider lists it.
type Instance struct {
	ID string
	// Ended means that the machine no longer runs. A provider may list an instance
	// that has ended, or omit it.
	Ended bool
	// Reclaimed means that the provider took the machine away, and that it did not
	// end by itself.
	Reclaimed bool
}

// Provider creates and ends the machines of pools.
type Provider interface {
	// Create boots one machine per id. The agent on it registers under that id. It
	// returns an error for each id that was not created: ErrNoCapacity, ErrQuota,
	// ErrInvalidInstance, ErrProviderGone, or another one if it is transient.
	Create(ctx context.Context, pool *models.Pool, instanceIDs []string) map[string]error
	// List returns all instances that boot or run, and those that ended recently if
	// the provider knows why. It may return ErrProviderGone.
	List(ctx context.Context) ([]Instance, error)
	// Preempt gives the instance notice, returns, and kills the instance when the
	// notice is over. It returns ErrNoInstance if the instance is not running.
	Preempt(ctx context.Context, instanceID string, notice time.Duration) error
	// Kill ends the instance now. It returns ErrNoInstance if the instance is not
	// running.
	Kill(ctx context.Context, instanceID string) error
}
