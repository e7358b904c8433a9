// Command mutants checks that the tests detect bugs. Each patch in this folder removes one
// thing that keeps a job from being lost, doubled or shown to another account. The tests
// that the patch names must fail with it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const usage = `Usage: go tool task mutants -- [--list] [NAME …]

Takes away one guard after the other, each in a copy of this tree, and runs the
tests that must notice: all mutants, or those of these names. It ends with 1 if
one got away, and with 2 if it could not be tried.

`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	flag.Usage = func() { fmt.Fprint(os.Stderr, usage); flag.PrintDefaults() }
	list := flag.Bool("list", false, "only print the mutants and the tests that must notice")
	flag.Parse()
	if *list {
		mutants, err := readMutants("e2e/mutants", flag.Args())
		if err != nil {
			fmt.Fprintln(os.Stderr, "mutants:", err)
			os.Exit(2)
		}
		for _, m := range mutants {
			fmt.Printf("%-27s %s (%s %s)\n", m.name, m.what, m.pkg, m.tests)
		}
		return
	}
	survivors, err := run(ctx, flag.Args())
	if ctx.Err() != nil {
		err = errors.New("interrupted before its end; nothing is left running, and nothing was decided")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	}
	if survivors > 0 {
		fmt.Fprintf(os.Stderr, "mutants: %d got away\n", survivors)
		os.Exit(1)
	}
}

// run tries these mutants, or all, and returns how many were not caught.
func run(ctx context.Context, names []string) (survivors int, err error) {
	mutants, err := readMutants("e2e/mutants", names)
	if err != nil {
		return 0, err
	}
	tree, err := copyTree(ctx)
	if err != nil {
		return 0, err
	}
	defer tree.remove()
	fmt.Fprintf(os.Stderr, "The tests without a mutant …\n")
	if err := tree.sound(ctx, mutants); err != nil {
		return 0, err
	}
	const row = "%-27s %-66s %7s  %s\n"
	fmt.Printf(row, "MUTANT", "CAUGHT BY", "SECONDS", "WHAT IT BREAKS")
	for _, m := range mutants {
		begun := time.Now()
		by, err := tree.try(ctx, m)
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		switch {
		case err != nil:
			survivors++
			by = "NOT TRIED: " + err.Error()
		case by == "":
			survivors++
			by = "NOBODY"
		}
		fmt.Printf(row, m.name, by, fmt.Sprintf("%.0f", time.Since(begun).Seconds()), m.what)
	}
	return survivors, nil
}
