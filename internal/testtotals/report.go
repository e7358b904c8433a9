package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

// event is a line of `go test -json`; see `go doc test2json`.
type event struct {
	Action      string
	Package     string
	ImportPath  string // set for the output of a build, instead of Package
	Test        string
	Elapsed     float64
	Output      string
	FailedBuild string
}

// testKey identifies a test or, if test is empty, a package or its build.
type testKey struct{ pkg, test string }

// report counts tests and prints the results. It counts subtests instead of the test that
// contains them, unless that test itself failed.
type report struct {
	out                     io.Writer
	passed, failed, skipped int
	passing                 bool // go test exited with 0

	output   map[testKey]*strings.Builder
	parents  map[testKey]bool // tests with subtests
	blamed   map[testKey]bool // tests and packages below which a failure was counted
	perTests map[string]int   // tests counted by package
	slow     []event          // tests that took longer than slowTest
	running  map[testKey]bool // running tests and packages
}

// The report ends with up to maxSlow tests that took at least slowTest seconds.
const (
	slowTest = 20
	maxSlow  = 12
)

func newReport(out io.Writer) *report {
	return &report{
		out: out, output: map[testKey]*strings.Builder{}, parents: map[testKey]bool{},
		blamed: map[testKey]bool{}, perTests: map[string]int{},
		running: map[testKey]bool{},
	}
}

// read handles all events and calls progress after each. It prints a line that is not an
// event unchanged.
func (r *report) read(events io.Reader, progress func()) error {
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Fprintln(r.out, lines.Text())
			continue
		}
		r.take(e)
		progress()
	}
	return lines.Err()
}

func (r *report) take(e event) {
	key := testKey{e.Package, e.Test}
	switch e.Action {
	case "start", "cont":
		r.running[key] = true
	case "pause":
		delete(r.running, key)
	case "run":
		r.running[key] = true
		if parent := path.Dir(e.Test); parent != "." {
			r.parents[testKey{e.Package, parent}] = true
		}
	case "output":
		r.keep(key, e.Output)
	case "build-output":
		r.keep(testKey{pkg: e.ImportPath}, e.Output)
	case "pass", "fail", "skip":
		delete(r.running, key)
		if e.Test == "" {
			r.endPackage(e)
		} else {
			r.endTest(key, e.Action)
			if e.Elapsed > slowTest && !r.parents[key] {
				r.slow = append(r.slow, e)
			}
		}
		delete(r.output, key)
	}
}

func (r *report) keep(key testKey, output string) {
	if r.output[key] == nil {
		r.output[key] = &strings.Builder{}
	}
	r.output[key].WriteString(output)
}

func (r *report) endTest(key testKey, action string) {
	if action == "fail" {
		if !r.blamed[key] {
			r.failed++
			r.perTests[key.pkg]++
		}
		r.show(key)
		r.blame(key)
		return
	}
	if r.parents[key] {
		return
	}
	r.perTests[key.pkg]++
	if action == "skip" {
		r.skipped++
		r.show(key)
	} else {
		r.passed++
	}
}

// blame marks everything that contains a failed test and so fails with it.
func (r *report) blame(key testKey) {
	r.blamed[testKey{pkg: key.pkg}] = true
	for parent := path.Dir(key.test); parent != "."; parent = path.Dir(parent) {
		r.blamed[testKey{key.pkg, parent}] = true
	}
}

// endPackage reports a package. If it failed without a failed test, it did not build,
// panicked, timed out or had a race, and counts as one failure.
func (r *report) endPackage(e event) {
	key := testKey{pkg: e.Package}
	switch {
	case e.Action == "fail":
		if !r.blamed[key] {
			r.failed++
			r.show(testKey{pkg: e.FailedBuild})
			r.showUnfinished(e.Package)
			r.show(key)
		}
		fmt.Fprintf(r.out, "FAIL  %s  %.1f s\n", e.Package, e.Elapsed)
	case r.perTests[e.Package] > 0:
		fmt.Fprintf(r.out, "ok    %s  %.1f s, %d tests\n", e.Package, e.Elapsed, r.perTests[e.Package])
	}
}

// showUnfinished prints the names and the output of the tests that were running when their
// process ended.
func (r *report) showUnfinished(pkg string) {
	for key := range r.running {
		if key.pkg == pkg {
			fmt.Fprintf(r.out, "running when its process ended: %s\n", key.test)
			delete(r.running, key)
		}
	}
	for key := range r.output {
		if key.pkg == pkg && key.test != "" {
			r.show(key)
		}
	}
}

func (r *report) show(key testKey) {
	if said := r.output[key]; said != nil {
		fmt.Fprint(r.out, said.String())
	}
}

// empty reports whether no test ran.
func (r *report) empty() bool { return r.passed+r.failed+r.skipped == 0 }

// total prints the slowest tests and the counts.
func (r *report) total() {
	slices.SortFunc(r.slow, func(a, b event) int { return cmp.Compare(b.Elapsed, a.Elapsed) })
	for _, e := range r.slow[:min(len(r.slow), maxSlow)] {
		fmt.Fprintf(r.out, "slow  %s  %.1f s, %s\n", e.Package, e.Elapsed, e.Test)
	}
	if r.empty() {
		fmt.Fprintln(r.out, "no test ran: no test matched the packages and filters")
	}
	fmt.Fprintf(r.out, "%d passed, %d failed, %d skipped\n", r.passed, r.failed, r.skipped)
}
