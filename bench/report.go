package bench

import (
	"slices"
	"time"
)

// Report is the result of a run.
type Report struct {
	Began   time.Time `json:"began"`
	Seconds float64   `json:"seconds"`
	CPUs    int       `json:"cpus"`
	Go      string    `json:"go"`
	// Targets are the verdicts on Results.
	Targets []Verdict `json:"targets"`
	Results []*Result `json:"results"`
	// Missing says what could not be measured, and why.
	Missing []string `json:"missing"`
}

// Spread is the median, the minimum and the maximum of the rounds.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// Result is the result of one measurement.
type Result struct {
	Name        string  `json:"name"`
	Title       string  `json:"title"`
	Unit        string  `json:"unit"`
	Note        string  `json:"note,omitempty"`
	Rounds      int     `json:"rounds"`
	Contestants []Score `json:"contestants"`

	verdicts []Verdict
}

// Score is the result of one contestant.
type Score struct {
	Name    string            `json:"name"`
	Role    Role              `json:"role"`
	Differs string            `json:"differs,omitempty"`
	Figures map[string]Spread `json:"figures"`
}

// Verdict says whether a target was met. Limit and Peer are nil if there is none or it was
// not available. Ratio is then also nil if the target is relative to it.
type Verdict struct {
	Name   string  `json:"name"`
	Figure string  `json:"figure"`
	Ours   float64 `json:"ours"`
	// OursMin and OursMax are the extremes of the rounds whose median is Ours.
	OursMin float64  `json:"oursMin"`
	OursMax float64  `json:"oursMax"`
	Limit   *float64 `json:"limit"`
	Peer    *float64 `json:"peer"`
	// Against is the contestant by which Ours is divided to get Ratio. If it is empty,
	// Ratio is Ours.
	Against string   `json:"against"`
	Ratio   *float64 `json:"ratio"`
	Target  float64  `json:"target"`
	// AtMost means that the target is an upper bound.
	AtMost bool `json:"atMost"`
	Met    bool `json:"met"`
}

func (r *Report) add(result *Result, lacks []string) {
	r.Results = append(r.Results, result)
	r.Targets = append(r.Targets, result.verdicts...)
	for _, line := range lacks {
		if !slices.Contains(r.Missing, line) {
			r.Missing = append(r.Missing, line)
		}
	}
}

func newResult(m Measurement, contestants []Contestant, measured [][]Figures) *Result {
	r := &Result{Name: m.Name, Title: m.Title, Unit: m.Unit, Note: m.Note}
	for i, c := range contestants {
		r.Rounds = len(measured[i])
		r.Contestants = append(r.Contestants, Score{Name: c.Name, Role: c.Role, Differs: c.Differs, Figures: spreads(measured[i])})
	}
	for _, t := range m.Targets {
		r.verdicts = append(r.verdicts, r.judge(t))
	}
	return r
}

func spreads(rounds []Figures) map[string]Spread {
	values := map[string][]float64{}
	for _, round := range rounds {
		for name, value := range round {
			values[name] = append(values[name], value)
		}
	}
	all := map[string]Spread{}
	for name, values := range values {
		slices.Sort(values)
		middle := values[len(values)/2]
		if len(values)%2 == 0 {
			middle = (middle + values[len(values)/2-1]) / 2
		}
		all[name] = Spread{Median: middle, Min: values[0], Max: values[len(values)-1]}
	}
	return all
}

func (r *Result) judge(t Target) Verdict {
	ours := r.figure(t.Figure, func(s Score) bool { return s.Role == Ours && (t.Of == "" || s.Name == t.Of) })
	v := Verdict{Name: t.Name, Figure: t.Figure, Against: t.Against, Target: t.Bound, AtMost: t.AtMost}
	v.Limit = median(r.figure(t.Figure, func(s Score) bool { return s.Role == Limit }))
	v.Peer = median(r.figure(t.Figure, func(s Score) bool { return s.Role == Peer && s.Name == t.Against }))
	if v.Peer == nil {
		v.Peer = median(r.figure(t.Figure, func(s Score) bool { return s.Role == Peer }))
	}
	if ours == nil {
		return v
	}
	v.Ours, v.OursMin, v.OursMax = ours.Median, ours.Min, ours.Max
	ratio := v.Ours
	if t.Against != "" {
		other := r.figure(t.Figure, func(s Score) bool { return s.Name == t.Against })
		if other == nil || other.Median == 0 {
			return v
		}
		ratio /= other.Median
	}
	v.Ratio, v.Met = &ratio, ratio >= t.Bound
	if t.AtMost {
		v.Met = ratio <= t.Bound
	}
	return v
}

// figure returns a figure of the first contestant for which is returns true, or nil.
func (r *Result) figure(name string, is func(Score) bool) *Spread {
	for _, score := range r.Contestants {
		if s, ok := score.Figures[name]; ok && is(score) {
			return &s
		}
	}
	return nil
}

func median(s *Spread) *float64 {
	if s == nil {
		return nil
	}
	return &s.Median
}
