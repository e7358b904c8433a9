package catalogue

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/models"
)

// validName is what names of models, aliases, types and runtimes consist of. They occur in
// URLs, on command lines and in metrics.
var validName = regexp.MustCompile(NameForm)

// NameForm is a regular expression for such names.
const NameForm = `^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`

func (s *Source) checkName(place, name string) {
	switch {
	case name == "":
		s.problem(place, "the entry has no name")
	case !validName.MatchString(name):
		s.problem(place+".name", "the name %q must have 1 to %d letters, digits, dots, hyphens and underscores, and begin with a letter or digit",
			text.Clip(name, MaxName), MaxName)
	case slices.ContainsFunc(s.Models, func(m *Model) bool { return m.Name == name }),
		slices.ContainsFunc(s.Aliases, func(a *Alias) bool { return a.Name == name }):
		s.problem(place+".name", "the name %s occurs twice in this file", name)
	}
}

// addModel checks a model and fills in its defaults.
func (s *Source) addModel(place string, m *Model) {
	s.checkName(place, m.Name)
	s.checkTexts(place, m)
	s.checkNeeds(place, m)
	m.Produces = cmp.Or(Product(strings.ToUpper(string(m.Produces))), ProducesVideo)
	if m.Produces != ProducesVideo && m.Produces != ProducesImage && m.Produces != ProducesOutput {
		s.problem(place+".produces", "produces is %q: it must be video, image or output", text.Clip(string(m.Produces), 64))
	}
	if !(m.TimeoutSeconds > 0 && m.TimeoutSeconds <= MaxTimeout) {
		s.problem(place+".timeoutSeconds", "timeoutSeconds is %g: it must be over 0 and at most %d", m.TimeoutSeconds, MaxTimeout)
	}
	if !(m.GPUSecondsPerSecond > 0 && m.GPUSecondsPerSecond <= 1e6) {
		s.problem(place+".gpuSecondsPerSecond", "gpuSecondsPerSecond is %g: it must be over 0 and at most 1,000,000", m.GPUSecondsPerSecond)
	}
	if m.PriceFactor == 0 {
		m.PriceFactor = 1
	}
	if !(m.PriceFactor > 0 && m.PriceFactor <= 1000) {
		s.problem(place+".priceFactor", "priceFactor is %g: it must be over 0 and at most 1,000", m.PriceFactor)
	}
	s.checkRetry(place+".retry", m.Retry)
	s.checkAccounts(place+".accounts", m.Accounts)
	s.checkFallback(place+".fallback", m)
	if len(m.Settings) > 0 && m.Settings[0] != '{' {
		s.problem(place+".settings", "settings must be a map")
	}
	if err := checkQuality(m.Quality); err != nil {
		s.problem(place+".quality", "%s", err)
	}
	switch {
	case len(m.Schema) == 0:
		s.problem(place, "the model %s has no params: give the JSON Schema of its parameters", m.Name)
	case m.Schema[0] != '{':
		s.problem(place+".params", "params must be a JSON Schema, which is a map")
	default:
		if err := m.compile(); err != nil {
			s.problem(place+".params", "params is not a valid JSON Schema: %s", schemaProblem(err))
		} else {
			s.checkInputs(place+".params", m)
		}
	}
	s.checkSettings(place+".settings", m)
	s.checkDrafts(place, m)
	s.checkTimed(place, m)
	s.Models = append(s.Models, m)
}

func (s *Source) checkTexts(place string, m *Model) {
	if !validName.MatchString(m.Type) {
		s.problem(place, "the model %s needs a type, such as video.generate; it is %q", m.Name, text.Clip(m.Type, 64))
	}
	if (m.Type == models.TypeApproval) != (m.Name == models.TypeApproval) {
		s.problem(place, "the name and the type %s are those of the model whose jobs wait for an answer: choose others", models.TypeApproval)
	}
	if m.Runtime != "" && !validName.MatchString(m.Runtime) {
		s.problem(place+".runtime", "the runtime %q is not a name of letters, digits, dots, hyphens and underscores", text.Clip(m.Runtime, 64))
	}
	if !text.Valid(m.Description, 0, maxText) {
		s.problem(place+".description", "description may have %d printable characters", maxText)
	}
}

// checkNeeds checks what a worker must have.
func (s *Source) checkNeeds(place string, m *Model) {
	if len(m.GPUTypes) == 0 {
		s.problem(place, "gpuTypes is empty: name one, or any")
	}
	for i, name := range m.GPUTypes {
		if !text.Valid(name, 1, text.MaxName) || slices.Index(m.GPUTypes, name) != i {
			s.problem(place+".gpuTypes", "gpuTypes must be different names of 1 to %d printable characters", text.MaxName)
			break
		}
	}
	if m.GPUsPerWorker == 0 {
		m.GPUsPerWorker = 1
	}
	if m.GPUsPerWorker < 1 || m.GPUsPerWorker > 64 {
		s.problem(place+".gpusPerWorker", "gpusPerWorker is %d: it must be from 1 to 64", m.GPUsPerWorker)
	}
	if !(m.GPUMemoryGB >= 0 && m.GPUMemoryGB <= 10_000) {
		s.problem(place+".gpuMemoryGb", "gpuMemoryGb is %g: it must be from 0 to 10,000", m.GPUMemoryGB)
	}
}

func (s *Source) checkAccounts(place string, accounts []models.AccountID) {
	if accounts != nil && len(accounts) == 0 {
		s.problem(place, "accounts is an empty list: name the accounts that may use the model, or leave it out for all")
		return
	}
	if len(accounts) > maxAccounts {
		s.problem(place, "accounts may have %d accounts", maxAccounts)
		return
	}
	for i, id := range accounts {
		if !id.Valid() || slices.Index(accounts, id) != i {
			s.problem(fmt.Sprintf("%s[%d]", place, i), "accounts must list ids of accounts, each of them once; leave it out for all")
			return
		}
	}
}

// checkFallback checks the list of models that render jobs of a model instead. Those models may not exist yet.
func (s *Source) checkFallback(place string, m *Model) {
	if len(m.Fallback) > MaxFallback {
		s.problem(place, "fallback may name %d models; it names %d", MaxFallback, len(m.Fallback))
		return
	}
	for i, name := range m.Fallback {
		switch {
		case !validName.MatchString(name):
			s.problem(fmt.Sprintf("%s[%d]", place, i), "fallback names %q, which is no name of a model", text.Clip(name, MaxName))
		case name == m.Name:
			s.problem(fmt.Sprintf("%s[%d]", place, i), "fallback names the model itself: name others")
		case slices.Index(m.Fallback, name) != i:
			s.problem(fmt.Sprintf("%s[%d]", place, i), "fallback names %s twice", name)
		}
	}
}

// maxAccounts is how many accounts a model can be limited to.
const maxAccounts = 100

func (s *Source) checkRetry(place string, r *Retry) {
	if r == nil {
		return
	}
	if n := r.MaxAttempts; n != nil && (*n < 1 || *n > 20) {
		s.problem(place+".maxAttempts", "maxAttempts is %d: it must be from 1 to 20", *n)
	}
	r.Backoff = models.Backoff(strings.ToUpper(string(r.Backoff)))
	if r.Backoff != "" && r.Backoff != models.BackoffFixed && r.Backoff != models.BackoffExponential {
		s.problem(place+".backoff", "backoff is %q: it must be %s or %s", text.Clip(string(r.Backoff), 64), models.BackoffExponential,
			models.BackoffFixed)
	}
	for name, delay := range map[string]*float64{"initialDelaySeconds": r.InitialDelaySeconds, "maxDelaySeconds": r.MaxDelaySeconds} {
		if delay != nil && !(*delay >= 0.1 && *delay <= 86400) {
			s.problem(place+"."+name, "%s is %g: it must be from 0.1 to 86,400", name, *delay)
		}
	}
	if r.InitialDelaySeconds != nil && r.MaxDelaySeconds != nil && *r.InitialDelaySeconds > *r.MaxDelaySeconds {
		s.problem(place, "maxDelaySeconds is less than initialDelaySeconds")
	}
}

// checkAliases checks that each alias leads to models only, given all entries that there would
// be.
func (s *Source) checkAliases(all *Snapshot) {
	clear := map[string]bool{}
	for i, a := range s.Aliases {
		place := fmt.Sprintf("$.aliases[%d].models", i)
		for _, w := range a.Weights {
			if all.model(w.Name) == nil && all.alias(w.Name) == nil {
				s.problem(place, "the alias %s names %s, which is neither a model nor an alias", a.Name, text.Clip(w.Name, MaxName))
			}
		}
		if path := all.cycle(a.Name, nil, clear); path != nil {
			s.problem(place, "the aliases form a cycle: %s", strings.Join(path, " → "))
		}
	}
}
