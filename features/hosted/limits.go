package hosted

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/reelay/reelay/internal/freshfile"
	"github.com/reelay/reelay/internal/yamlfile"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/uptrace/bun"
)

// limitsFile is the file of REELAY_PROVIDER_LIMITS.
type limitsFile struct {
	// Providers are limits by the name of a pool, or by the kind of a provider for all its pools.
	Providers map[string]*entry `yaml:"providers"`
}

// entry is what an operator writes of an account. What is left out is usual.
type entry struct {
	Concurrent         *int     `yaml:"concurrent"`
	PerMinute          *int     `yaml:"perMinute"`
	OnUnknownSubmit    string   `yaml:"onUnknownSubmit"`
	UnknownSubmitHours *float64 `yaml:"unknownSubmitHours"`
}

const (
	maxConcurrent = 10_000
	maxPerMinute  = 100_000
	maxWaitHours  = 30 * 24
)

// onUnknown are the policies as people write them.
var onUnknown = map[string]capacity.UnknownSubmit{
	"wait": capacity.UnknownWait, "give-up": capacity.UnknownGiveUp, "pay-again": capacity.UnknownPayAgain,
}

// Limits are the limits that an operator wrote. They are read again when the file changes.
type Limits struct {
	file *freshfile.File[map[string]*entry]
}

// ReadLimits reads a file of limits. An empty path means the usual ones.
func ReadLimits(path string) (*Limits, error) {
	if path == "" {
		return &Limits{}, nil
	}
	l := &Limits{freshfile.New(func() (map[string]*entry, error) {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		return parseLimits(filepath.Base(path), data)
	}, path)}
	_, err := l.file.Get()
	return l, err
}

func parseLimits(name string, data []byte) (map[string]*entry, error) {
	var read limitsFile
	file, err := yamlfile.Read(name, "limits of providers", data, &read)
	if err != nil {
		return nil, err
	}
	for name, e := range read.Providers {
		place := "$.providers." + name
		switch {
		case !poolName.MatchString(name):
			file.Problem(place, "%.40q is no name of a pool, nor a kind of provider", name)
			continue
		case e == nil:
			file.Problem(place, "%s is empty: give it concurrent, perMinute, onUnknownSubmit or unknownSubmitHours, or leave it out", name)
			continue
		}
		if e.Concurrent != nil && (*e.Concurrent < 0 || *e.Concurrent > maxConcurrent) {
			file.Problem(place+".concurrent", "concurrent must be from 0, which lets no job begin, to %d", maxConcurrent)
		}
		if e.PerMinute != nil && (*e.PerMinute < 1 || *e.PerMinute > maxPerMinute) {
			file.Problem(place+".perMinute", "perMinute must be from 1 to %d", maxPerMinute)
		}
		if _, known := onUnknown[e.OnUnknownSubmit]; e.OnUnknownSubmit != "" && !known {
			file.Problem(place+".onUnknownSubmit", "onUnknownSubmit is %.40q: it must be wait, give-up or pay-again", e.OnUnknownSubmit)
		}
		if h := e.UnknownSubmitHours; h != nil && !(*h > 0 && *h <= maxWaitHours) {
			file.Problem(place+".unknownSubmitHours", "unknownSubmitHours must be over 0, and at most %d", maxWaitHours)
		}
	}
	return read.Providers, file.Err()
}

// of returns the limits of a pool: what its own entry says, then that of its kind, then what is usual.
func (l *Limits) of(pool capacity.HostedPool) (capacity.ProviderLimits, error) {
	limits := capacity.UsualLimits(pool.Kind)
	if l.file == nil {
		return limits, nil
	}
	all, err := l.file.Get()
	for _, name := range []string{string(pool.Kind), pool.Name} {
		e := all[name]
		if e == nil {
			continue
		}
		if e.Concurrent != nil {
			limits.Concurrent = *e.Concurrent
		}
		if e.PerMinute != nil {
			limits.PerMinute = *e.PerMinute
		}
		if e.OnUnknownSubmit != "" {
			limits.OnUnknown = onUnknown[e.OnUnknownSubmit]
		}
		if e.UnknownSubmitHours != nil {
			limits.UnknownWait = time.Duration(*e.UnknownSubmitHours * float64(time.Hour))
		}
	}
	return limits, err
}

// LimitsEvery is how often the file of limits is looked at.
const LimitsEvery = 5 * time.Second

// Applier writes the limits of the file into the database, where they count.
type Applier struct {
	DB     *bun.DB
	Limits *Limits
}

// Pass makes the accounts of all pools have the limits of the file, and forgets slots of jobs that are over. Any
// number of processes may run it; all should have the same file.
func (a *Applier) Pass(ctx context.Context) error {
	pools, err := capacity.ListHostedPools(ctx, a.DB)
	if err != nil {
		return fmt.Errorf("list the pools of hosted providers: %w", err)
	}
	all := map[models.PoolID]capacity.ProviderLimits{}
	for _, pool := range pools {
		if all[pool.ID], err = a.Limits.of(pool); err != nil {
			return fmt.Errorf("read the limits of providers: %w", err)
		}
	}
	if err := capacity.SetProviderLimits(ctx, a.DB, all); err != nil {
		return fmt.Errorf("write the limits of providers: %w", err)
	}
	if err := capacity.ForgetSlots(ctx, a.DB); err != nil {
		return fmt.Errorf("forget slots at providers: %w", err)
	}
	return nil
}
