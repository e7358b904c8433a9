package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"
)

// saveSteps is how many steps the runtime may go on while a checkpoint is saved: a worker that is
// lost then loses them as well.
const saveSteps = 3

// judgeWaves collects why a run with waves failed.
func (r *report) judgeWaves() {
	if len(r.Waves) == 0 {
		return
	}
	if n := r.FailedBy["POISON"]; n > 0 {
		r.Failures = append(r.Failures, fmt.Sprintf("%d jobs were blamed for the loss of their workers (POISON)", n))
	}
	for _, w := range r.Waves {
		if most := float64(reclaimInterval + saveSteps); w.WorkLost.Max > most {
			r.Failures = append(r.Failures,
				fmt.Sprintf("%s: a job lost the work of %.1f s, more than the %g s between two checkpoints and their saving", w.Name, w.WorkLost.Max,
					most))
		}
	}
}

// printWaves writes what the waves did, as a table.
func (r *report) printWaves(out io.Writer) {
	if len(r.Waves) == 0 {
		return
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\n| a wave\t| agents gone\t| jobs interrupted\t| resumed\t| from the start\t| ended meanwhile\t| work lost, p50 / max s\t| to RUNNING, p50 / p95 s\t| boot, p50 / p95 s\t| refused starts\t| requests/s, before / peak\t|\n")
	fmt.Fprintf(w, "| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t|\n")
	for _, v := range r.Waves {
		pair := func(n int, a, b float64) string { return seconds(n, a) + " / " + seconds(n, b) }
		fmt.Fprintf(w, "| %s\t| %d\t| %d\t| %d\t| %d\t| %d\t| %s\t| %s\t| %s\t| %d\t| %d / %d\t|\n", v.Name, v.Gone, v.Interrupted, v.Resumed,
			v.Again, v.Over,
			pair(v.WorkLost.N, v.WorkLost.P50, v.WorkLost.Max), pair(v.Running.N, v.Running.P50, v.Running.P95),
			pair(v.Boot.N, v.Boot.P50, v.Boot.P95),
			v.RefusedStarts, v.Before, v.Peak)
	}
	w.Flush()
	fmt.Fprintf(out, "A checkpoint follows each %d s of work.\n", reclaimInterval)
}

// refusedStarts counts in the agents' logs how many registrations failed between two moments.
func (s *soak) refusedStarts(from, until time.Time) (n int) {
	logs, _ := filepath.Glob(filepath.Join(s.dir, "agents-*.log"))
	for _, path := range logs {
		file, err := os.Open(path)
		if err != nil {
			continue
		}
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var line struct{ Time time.Time }
			if bytes.Contains(lines.Bytes(), []byte("register the worker")) && json.Unmarshal(lines.Bytes(), &line) == nil &&
				line.Time.After(from) && line.Time.Before(until) {
				n++
			}
		}
		file.Close()
	}
	return n
}
