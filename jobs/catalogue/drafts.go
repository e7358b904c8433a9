package catalogue

import (
	"cmp"
	"encoding/json"
	"math"
	"strings"

	"github.com/reelay/reelay/internal/apierror"
)

// Determinism is whether a render that resumes on other software or another GPU may continue.
type Determinism string

const (
	// Strict refuses the checkpoint: the render starts from an older one, or from the beginning.
	Strict Determinism = "STRICT"
	// BestEffort continues, and says so on the job. It is the default.
	BestEffort Determinism = "BEST_EFFORT"
)

// WhenResumed is Determinism with its default.
func (m *Model) WhenResumed() Determinism { return cmp.Or(m.Determinism, BestEffort) }

// Drafts says how many steps a video of a model takes, so that a draft can end before the last.
// Either StepsParam is set, or StepsPerSecond.
type Drafts struct {
	// StepsParam is the parameter that holds the number of steps.
	StepsParam string `json:"stepsParam,omitzero" yaml:"stepsParam"`
	// StepsPerSecond is the number of steps for each second of video, rounded up; MinSteps is
	// the least number of steps of any video.
	StepsPerSecond float64 `json:"stepsPerSecond,omitzero" yaml:"stepsPerSecond"`
	MinSteps       int     `json:"minSteps,omitzero" yaml:"minSteps"`
}

const maxSteps = 1_000_000

// CheckDraft returns INVALID_INPUT unless a draft of that many steps can be made with these
// params, which are valid: the model makes drafts, and steps is 1 to the steps of the video.
func (m *Model) CheckDraft(params json.RawMessage, steps int) error {
	if m.Drafts == nil {
		return apierror.Invalid("draft", "The model %s makes no drafts: submit the job without draft.", m.Name)
	}
	total := m.Steps(params)
	switch {
	case total == 0:
		return apierror.Invalid("draft", "The number of steps is unknown: set params.%s.", m.Drafts.StepsParam)
	case steps < 1 || steps > total:
		return apierror.Invalid("draft.steps", "draft.steps must be from 1 to %d, the steps of this video; it is %d.", total, steps)
	}
	return nil
}

// Steps returns how many steps a video with these params takes, or 0 if that is unknown.
func (m *Model) Steps(params json.RawMessage) int {
	switch {
	case m.Drafts == nil:
		return 0
	case m.Drafts.StepsParam == "":
		seconds, _ := ReadReckoning(params)
		return max(m.Drafts.MinSteps, int(math.Ceil(seconds*m.Drafts.StepsPerSecond)))
	}
	var given map[string]json.RawMessage
	var steps float64
	_ = json.Unmarshal(params, &given) // valid params are an object
	if json.Unmarshal(given[m.Drafts.StepsParam], &steps) != nil || !(steps >= 1 && steps <= maxSteps) {
		return 0
	}
	return int(steps)
}

// checkDrafts checks how a model makes drafts. Its params have been checked before.
func (s *Source) checkDrafts(place string, m *Model) {
	m.Determinism = Determinism(strings.ToUpper(strings.ReplaceAll(string(m.Determinism), "-", "_")))
	if m.Determinism != "" && m.Determinism != Strict && m.Determinism != BestEffort {
		s.problem(place+".determinism", "determinism must be strict or best-effort")
	}
	d := m.Drafts
	if d == nil {
		return
	}
	place += ".drafts"
	switch {
	case (d.StepsParam == "") == (d.StepsPerSecond == 0):
		s.problem(place, "drafts needs either stepsParam, the parameter with the number of steps, or stepsPerSecond")
	case d.StepsParam != "" && m.compiled != nil && !m.Takes(d.StepsParam):
		s.problem(place+".stepsParam", "stepsParam is %q: params has no such property", d.StepsParam)
	case d.StepsParam != "" && m.compiled != nil && !m.takesNumber(d.StepsParam):
		s.problem(place+".stepsParam", "stepsParam is %q: its type in params must be integer or number", d.StepsParam)
	case !(d.StepsPerSecond >= 0 && d.StepsPerSecond <= 10_000):
		s.problem(place+".stepsPerSecond", "stepsPerSecond is %g: it must be over 0 and at most 10,000", d.StepsPerSecond)
	case d.MinSteps < 0 || d.MinSteps > maxSteps || d.MinSteps > 0 && d.StepsParam != "":
		s.problem(place+".minSteps", "minSteps is %d: it must be from 0 to %d, and goes with stepsPerSecond", d.MinSteps, maxSteps)
	}
}
