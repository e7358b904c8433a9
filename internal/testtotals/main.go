// Testtotals runs `go test` with the arguments it is given and says what came of
// it: a line for each package, the output of what failed, and last one line of
// totals. Its exit status is 0 only if go test's is.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

func main() {
	passed, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "testtotals:", err)
	}
	if err != nil || !passed {
		os.Exit(1)
	}
}

// run reports whether all tests passed. Ctrl-C reaches go test by itself; this
// process goes on until go test has told the rest.
func run(args []string) (bool, error) {
	signal.Ignore(os.Interrupt)
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return false, err
	}
	if err := cmd.Start(); err != nil {
		return false, err
	}
	forward(cmd.Process)

	report := newReport(os.Stdout)
	if err := report.read(events); err != nil {
		return false, errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	err = cmd.Wait()
	report.total()

	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return false, nil
	}
	return err == nil && report.failed == 0, err
}

// forward passes on what only we are sent.
func forward(process *os.Process) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	go func() {
		for range signals {
			_ = process.Signal(os.Interrupt) // it may have ended by now
		}
	}()
}
