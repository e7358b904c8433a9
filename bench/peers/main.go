// Command bench-peers runs one measurement of the benchmark with another queue and prints
// the result as JSON. PEERS_DATABASE_URL, PEERS_REDIS_URL and PEERS_FAKTORY are the addresses
// of the stores.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// task holds the arguments of one run.
type task struct {
	clients int           // concurrent callers or workers
	span    time.Duration // how long it may take
	n       int           // jobs to prepare, or to measure one at a time
	pause   time.Duration // between jobs that are measured one at a time
	payload string        // the arguments of each job
}

// figures are the results: rate in jobs per second, p50 and p99 in milliseconds.
type figures map[string]float64

// measurements are by peer and name.
var measurements = map[string]func(context.Context, task) (figures, error){
	"river insert":           riverInsert,
	"river insert-many-fast": riverInsertManyFast,
	"river work":             riverWork,
	"river pickup":           riverPickup,
	"asynq enqueue":          asynqEnqueue,
	"asynq work":             asynqWork,
	"asynq pickup":           asynqPickup,
	"faktory push":           faktoryPush,
	"faktory push-bulk":      faktoryPushBulk,
	"faktory work":           faktoryWork,
	"faktory pickup":         faktoryPickup,
	"gqlgen serve":           gqlgenServe,
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench-peers: "+err.Error())
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 2 {
		return errors.New("give a peer and a measurement, such as: river insert --clients 32 --seconds 3")
	}
	name := args[0] + " " + args[1]
	measure, known := measurements[name]
	if !known {
		return fmt.Errorf("there is no measurement %q", name)
	}
	var t task
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	seconds := flags.Float64("seconds", 3, "how long it may take")
	millis := flags.Float64("pause-ms", 0, "pause between jobs that are measured one at a time")
	bytes := flags.Int("payload", 398, "bytes of each job's arguments")
	flags.IntVar(&t.clients, "clients", 32, "callers, or workers, at once")
	flags.IntVar(&t.n, "n", 1000, "jobs to prepare, or to measure one at a time")
	if err := flags.Parse(args[2:]); err != nil {
		return err
	}
	t.span = time.Duration(*seconds * float64(time.Second))
	t.pause = time.Duration(*millis * float64(time.Millisecond))
	t.payload = strings.Repeat("x", max(0, *bytes-len(`{"payload":""}`)))

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	result, err := measure(ctx, t)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}
