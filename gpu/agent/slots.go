package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/reelay/reelay/gpu/agent/host"
	"github.com/reelay/reelay/gpu/sensor"
)

// maxSlots bounds --workers and --gpus-per-worker.
const maxSlots = 64

// layout is how the GPUs of a machine are divided among its workers.
type layout struct {
	workers, gpus int      // how many workers, and how many GPUs each has
	visible       []string // the names of the machine's GPUs, or nil: 0, 1, 2, …
}

// newLayout divides the GPUs that CUDA_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES leave to the agent,
// or all of the machine.
func newLayout(workers, gpus int) (layout, error) {
	l := layout{workers: workers, gpus: gpus}
	for flag, value := range map[string]int{"workers": workers, "gpus-per-worker": gpus} {
		if value < 1 || value > maxSlots {
			return l, fmt.Errorf("--%s is %d: it must be from 1 to %d", flag, value, maxSlots)
		}
	}
	for _, variable := range host.VisibleDevices {
		if value, ok := os.LookupEnv(variable); ok && value != "" && value != "all" {
			l.visible = strings.Split(value, ",")
			if !l.whole() && len(l.visible) < workers*gpus {
				return l, fmt.Errorf("%s names %d GPUs, but %d workers with %d GPUs each need %d: use less of --workers or --gpus-per-worker", variable,
					len(l.visible), workers, gpus, workers*gpus)
			}
			break
		}
	}
	return l, nil
}

// whole means that one worker has the machine as it is.
func (l layout) whole() bool { return l.workers == 1 && l.gpus == 1 }

// devices returns the names of a slot's GPUs. Nil means all.
func (l layout) devices(slot int) []string {
	if l.whole() {
		return nil
	}
	var names []string
	for i := slot * l.gpus; i < (slot+1)*l.gpus; i++ {
		if l.visible != nil {
			names = append(names, strings.TrimSpace(l.visible[i]))
		} else {
			names = append(names, strconv.Itoa(i))
		}
	}
	return names
}

// runAll runs the workers of a machine until the last has ended. They share its notices and its
// disk. The end of one leaves the others at work; their errors are joined.
func runAll(ctx context.Context, config Config, l layout) error {
	if l.workers == 1 {
		return Run(ctx, config.on(l, 0))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var notices []chan Notice
	failed := make([]error, l.workers)
	var workers sync.WaitGroup
	for slot := range l.workers {
		notices = append(notices, make(chan Notice, 8))
		c := config.on(l, slot)
		c.Notices = notices[slot]
		workers.Go(func() {
			if err := Run(ctx, c); err != nil {
				failed[slot] = fmt.Errorf("worker %d: %w", slot, err)
				c.Log.Error("a worker of this machine has ended, the others go on", "error", err)
			}
		})
	}
	go spread(ctx, config.Notices, notices)
	workers.Wait()
	return errors.Join(failed...)
}

// spread passes each notice on to all workers.
func spread(ctx context.Context, from <-chan Notice, to []chan Notice) {
	for {
		select {
		case <-ctx.Done():
			return
		case n, ok := <-from:
			if !ok {
				return
			}
			for _, c := range to {
				select {
				case c <- n:
				default: // a worker that has ended takes none
				}
			}
		}
	}
}

// on returns the configuration of the worker in a slot.
func (c Config) on(l layout, slot int) Config {
	c.Slot, c.Devices = slot, l.devices(slot)
	if l.workers > 1 {
		c.Log = c.Log.With("slot", slot)
	}
	c.GPUs = sensor.Find(c.Log, c.Devices).Newest
	return c
}
