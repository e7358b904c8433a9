package command

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/internal/program"
)

const (
	maxKept = 8 << 10 // bytes of lines that are kept for a failure
	maxLog  = 1 << 20 // bytes of a program's output that are logged
)

// reports reads a program's output. Its methods can be called concurrently.
type reports struct {
	job     *runtime.Job
	pattern *regexp.Regexp
	json    bool

	mu     sync.Mutex
	last   runtime.Progress
	kept   []string // the newest lines
	size   int      // bytes of kept
	logged int
	// failure is what the program itself reported. It is read after the program's end.
	failure *runtime.Failure
}

func newReports(job *runtime.Job, s *program.Settings) *reports {
	return &reports{
		job: job, pattern: s.Progress.Pattern(), json: s.Progress != nil && s.Progress.JSONLines,
		last: runtime.Progress{Phase: runtime.PhaseRendering},
	}
}

// begin reports that the program runs, at the percentage of its last report.
func (r *reports) begin(message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last.Message = clip(message, maxQuote)
	r.job.Progress(r.last)
}

func (r *reports) percent() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last.Percent
}

// lines returns the newest lines that were no reports.
func (r *reports) lines() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.kept
}

// read reads one output to its end.
func (r *reports) read(from io.Reader, stdout bool) {
	lines := bufio.NewReaderSize(from, program.MaxLine)
	for {
		line, err := program.ReadLine(lines)
		if text := strings.TrimSpace(strings.ToValidUTF8(string(line), "�")); text != "" {
			r.line(text, stdout)
		}
		if err != nil {
			return
		}
	}
}

// line handles one line: a report, or text for the log.
func (r *reports) line(text string, stdout bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.json && stdout && r.readJSON(text) {
		return
	}
	if r.pattern != nil && r.match(text) {
		return
	}
	r.kept, r.size = append(r.kept, text), r.size+len(text)
	for r.size > maxKept && len(r.kept) > 1 {
		r.size -= len(r.kept[0])
		r.kept = r.kept[1:]
	}
	// The runtime's standard error is the job's log.
	if r.logged += len(text); r.logged <= maxLog {
		_, _ = os.Stderr.WriteString(text + "\n")
	}
}

// readJSON reads a line as a report and returns whether it is one.
func (r *reports) readJSON(text string) bool {
	if !strings.HasPrefix(text, "{") {
		return false
	}
	var line program.Report
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	if err := decoder.Decode(&line); err != nil {
		return false
	}
	if line.Error != nil {
		r.failure = failureOf(*line.Error)
	}
	p := &r.last
	if line.Percent != nil {
		p.Percent = bounded(*line.Percent)
	}
	if line.Message != "" {
		p.Message = clip(line.Message, maxQuote)
	}
	if line.TotalSteps > 0 && line.Step >= 0 {
		p.Step, p.TotalSteps = line.Step, line.TotalSteps
		if line.Percent == nil {
			p.Percent = bounded(100 * float64(line.Step) / float64(line.TotalSteps))
		}
	}
	switch phase := runtime.Phase(line.Phase); phase {
	case runtime.PhaseLoadingModel, runtime.PhaseRendering, runtime.PhaseEncoding:
		p.Phase = phase
	}
	r.job.Progress(*p)
	return true
}

func failureOf(e program.ReportedError) *runtime.Failure {
	f := runtime.Failf(runtime.FailureClass(e.Class), "%s", clip(e.Message, maxQuote))
	f.RetryAfterSeconds = min(max(e.RetryAfterSeconds, 0), 86400)
	if !program.IsClass(e.Class) {
		f.Class = runtime.ModelCrash
	}
	if f.Message == "" {
		f.Message = "The program reported an error without a message."
	}
	return f
}

// match reads progress from a line with the regular expression.
func (r *reports) match(text string) bool {
	found := r.pattern.FindStringSubmatch(text)
	if found == nil {
		return false
	}
	group := func(name string) string {
		if i := r.pattern.SubexpIndex(name); i >= 0 {
			return found[i]
		}
		return ""
	}
	p := &r.last
	if percent, err := strconv.ParseFloat(group("percent"), 64); err == nil {
		p.Percent = bounded(percent)
	}
	step, err1 := strconv.Atoi(group("step"))
	total, err2 := strconv.Atoi(group("total"))
	if err1 == nil && err2 == nil && total > 0 && step >= 0 {
		p.Step, p.TotalSteps = step, total
		if group("percent") == "" {
			p.Percent = bounded(100 * float64(step) / float64(total))
		}
	}
	if message := group("message"); message != "" {
		p.Message = clip(message, maxQuote)
	}
	r.job.Progress(*p)
	return true
}

func bounded(percent float64) float64 {
	if math.IsNaN(percent) {
		return 0
	}
	return min(max(percent, 0), 100)
}
