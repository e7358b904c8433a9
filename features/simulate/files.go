package simulate

import (
	"embed"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/internal/yamlfile"
)

const (
	maxFileBytes = 64 << 20
	maxSteps     = 1_000_000
)

// Trace is a measured number of machines that a pool can have over time.
type Trace struct {
	Pool string `yaml:"pool"`
	// File is a file in the JSON format of the public spot-traces: metadata.gap_seconds, and data
	// with the number of available machines at each step. After its end it repeats. GapSeconds and
	// Machines give the same in the scenario itself.
	File       string  `yaml:"file"`
	GapSeconds float64 `yaml:"gapSeconds"`
	Machines   []int   `yaml:"machines"`
	// Scale multiplies the numbers: a trace of one machine can stand for many.
	Scale float64 `yaml:"scale"`

	gap   float64
	steps []int
}

// files reads the files that the scenario names.
func (c *checker) files(folder string) {
	for i := range c.Traces {
		t := &c.Traces[i]
		field, err := "machines", error(nil)
		switch {
		case len(t.Machines) == 0:
			field, err = "file", within(folder, t.File, t.read)
		case t.File != "":
			err = errors.New("a trace has a file, or gapSeconds and machines, and not both")
		default:
			err = t.set(t.GapSeconds, t.Machines)
		}
		if err != nil {
			c.file.Problem(fmt.Sprintf("$.traces[%d].%s", i, field), "%s", err)
		}
	}
	total := 0
	for i := range c.Workload {
		w := &c.Workload[i]
		if w.Arrivals.Shape != "times" || w.Arrivals.File == "" {
			total += max(w.Jobs, 0)
			continue
		}
		place := fmt.Sprintf("$.workload[%d].arrivals.file", i)
		if err := within(folder, w.Arrivals.File, w.readTimes); err != nil {
			c.file.Problem(place, "%s", err)
		}
		if total += len(w.times); total > MaxJobs {
			c.file.Problem(place, "a scenario may have %d jobs; these are more", MaxJobs)
		}
	}
}

// within reads a file of at most maxFileBytes.
func within(folder, name string, read func(io.Reader) error) error {
	if name == "" {
		return errors.New("file must name a file")
	}
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(folder, path)
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > maxFileBytes {
		return fmt.Errorf("%s must be a file of at most %d MiB", text.Clip(text.Printable(name), 200), maxFileBytes>>20)
	}
	return read(io.LimitReader(f, maxFileBytes))
}

// read reads a trace.
func (t *Trace) read(r io.Reader) error {
	var found struct {
		Metadata struct {
			GapSeconds float64 `json:"gap_seconds"`
		} `json:"metadata"`
		Data []int `json:"data"`
	}
	if err := json.NewDecoder(r).Decode(&found); err != nil {
		return fmt.Errorf("this is not a trace: it must be {\"metadata\": {\"gap_seconds\": 300}, \"data\": [1, 0, …]}: %s",
			text.Clip(text.Printable(err.Error()), 200))
	}
	return t.set(found.Metadata.GapSeconds, found.Data)
}

// set checks the numbers of a trace.
func (t *Trace) set(gap float64, steps []int) error {
	if !(gap >= 1 && gap <= maxSeconds) {
		return fmt.Errorf("the gap of a trace must be from 1 to %d seconds; it is %v", maxSeconds, gap)
	}
	if n := len(steps); n == 0 || n > maxSteps {
		return fmt.Errorf("a trace must have 1 to %d numbers; it has %d", maxSteps, n)
	}
	for i, n := range steps {
		if n < 0 || n > 1_000_000 {
			return fmt.Errorf("number %d of the trace must be a number of machines from 0; it is %d", i+1, n)
		}
	}
	t.gap, t.steps = gap, steps
	return nil
}

// at returns how many machines there are at a time.
func (t *Trace) at(seconds float64) int {
	n := t.steps[int(seconds/t.gap)%len(t.steps)]
	return int(math.Round(float64(n) * t.Scale))
}

// readTimes reads the first column of a CSV file. A first line that is not a number is a header.
func (w *Workload) readTimes(r io.Reader) error {
	lines := csv.NewReader(r)
	lines.FieldsPerRecord, lines.ReuseRecord = -1, true
	for n := 1; ; n++ {
		record, err := lines.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		at, err := strconv.ParseFloat(strings.TrimSpace(record[0]), 64)
		if err != nil && n == 1 {
			continue
		}
		if err != nil || !(at >= 0 && at <= MaxHours*3600) {
			return fmt.Errorf("line %d: the first column must be the seconds from the beginning, from 0 to %d", n, MaxHours*3600)
		}
		if len(w.times) == MaxJobs {
			return fmt.Errorf("the file may have %d jobs; it has more", MaxJobs)
		}
		w.times = append(w.times, at)
	}
	if len(w.times) == 0 {
		return errors.New("the file has no arrivals")
	}
	slices.Sort(w.times)
	return nil
}

//go:embed scenarios/*.yaml
var shipped embed.FS

// Shipped returns the scenarios that come with Reelay, by name.
func Shipped() ([]*Scenario, error) {
	names, err := fs.Glob(shipped, "scenarios/*.yaml")
	if err != nil {
		return nil, err
	}
	var all []*Scenario
	for _, name := range names {
		data, err := shipped.ReadFile(name)
		if err != nil {
			return nil, err
		}
		s, err := Read(filepath.Base(name), "", data)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// Open returns a shipped scenario by its name, or reads one from a file.
func Open(name string) (*Scenario, error) {
	all, err := Shipped()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, s := range all {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	if !strings.ContainsAny(name, "./\\") {
		return nil, fmt.Errorf("there is no scenario %s: name a file, or one of %s", text.Clip(text.Printable(name), 64),
			strings.Join(names, ", "))
	}
	var s *Scenario
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, yamlfile.MaxBytes+1))
	if err != nil {
		return nil, err
	}
	s, err = Read(filepath.Base(name), filepath.Dir(name), data)
	return s, err
}
