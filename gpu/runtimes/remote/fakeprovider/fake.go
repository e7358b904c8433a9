// Package fakeprovider has fakes of hosted providers of videos: real HTTP with the documented shapes,
// states, errors and limits of each. Tests use them, and `reelay up --fake-providers`. A fake counts what
// the provider would bill.
package fakeprovider

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/tidwall/gjson"
)

// Config says how a fake behaves.
type Config struct {
	// Provider is the name of the adapter whose provider this is.
	Provider string
	// Concurrent and PerMinute are the limits of the account; 0 means none. What the provider does with a job
	// over the first is its own way: it refuses it, or lets it wait.
	Concurrent, PerMinute int
	// Steps is how many steps a job takes; 0 means 4.
	Steps int
	// Key is the account's key; "" takes any.
	Key string
	// ID makes the ids of jobs; nil means those that the provider usually makes.
	ID func() string
	// Film returns the film of a job.
	Film func(t Task) ([]byte, error)
	// Now is the provider's clock; nil means time.Now.
	Now func() time.Time
	// Webhooks says how webhooks are sent.
	Webhooks Webhooks
}

// Fake is a provider.
type Fake struct {
	config Config
	shape  shape
	mux    *http.ServeMux

	mu      sync.Mutex
	tasks   []*Task
	calls   []time.Time // of the API, refused or not
	most    int
	refuse  *refusal
	limited int // calls that were refused because of a limit
}

// Task is a job at the provider.
type Task struct {
	ID, Key, Model, Prompt, Hook string
	Body                         gjson.Result // of the request
	State                        State
	Done, Steps                  int
	// Created and Over are when it came and when it ended; the latter is zero before that.
	Created, Over time.Time
	// Code and Reason are those of a failure, in the provider's own words.
	Code, Reason string

	from      *http.Request // the submit
	announced State         // of the last webhook
	late      bool          // whether a webhook came late
}

// State is the state of a job.
type State string

// The states of jobs.
const (
	Waiting   State = "waiting"
	Running   State = "running"
	Succeeded State = "succeeded"
	Failed    State = "failed"
	Cancelled State = "cancelled"
)

// Ended reports whether the provider no longer works on the job.
func (t *Task) Ended() bool { return t.State != Waiting && t.State != Running }

// shape is how one provider speaks.
type shape struct {
	// routes are the calls by pattern of http.ServeMux. They run with the fake's lock.
	routes map[string]func(f *Fake, w http.ResponseWriter, r *http.Request)
	// refuse answers an error in the provider's shape.
	refuse func(w http.ResponseWriter, e refusal)
	// rejects means that a job over the limit of jobs is refused; otherwise it waits.
	rejects bool
	// late means that the provider looks at no prompt: only the model refuses content, at the end.
	late bool
	// key reads the key of a call.
	key func(r *http.Request) string
	// webhook is what a webhook says of a job, or nil if the provider sends none in its state. It is nil for
	// providers without webhooks. from is the submit.
	webhook func(f *Fake, from *http.Request, t *Task) object
	// sign signs webhooks; nil signs none.
	sign signer
}

// refusal is an error that a provider answers.
type refusal struct {
	kind  string // one of the kinds below
	text  string
	after time.Duration // Retry-After, or 0 for none
}

// The kinds of refusals.
const (
	badKey, noCredit, tooManyCalls, tooManyJobs, badInput, content, notFound, broken = "key", "credit", "calls", "jobs", "input", "content", "gone",
		"broken"
)

func (f *Fake) ServeHTTP(w http.ResponseWriter, r *http.Request) { f.mux.ServeHTTP(w, r) }

// admit counts a call, and refuses it if the account may not make it.
func (f *Fake) admit(r *http.Request) *refusal {
	now := f.config.Now()
	f.calls = append(f.calls, now)
	if f.config.Key != "" && f.shape.key(r) != f.config.Key {
		return &refusal{kind: badKey, text: "the key is unknown"}
	}
	if f.refuse != nil {
		if f.refuse.kind == tooManyCalls {
			f.limited++
		}
		return f.refuse
	}
	minute := f.calls[f.since(now.Add(-time.Minute)):]
	if f.config.PerMinute > 0 && len(minute) > f.config.PerMinute {
		f.limited++
		return &refusal{kind: tooManyCalls, text: "too many requests", after: minute[0].Add(time.Minute).Sub(now)}
	}
	return nil
}

func (f *Fake) since(at time.Time) int {
	i, _ := slices.BinarySearchFunc(f.calls, at, time.Time.Compare)
	return i
}

// submit starts a job, or refuses it. t has what the request says.
func (f *Fake) submit(t Task) (*Task, *refusal) {
	if f.shape.rejects && f.config.Concurrent > 0 && f.atWork() >= f.config.Concurrent {
		f.limited++
		return nil, &refusal{kind: tooManyJobs, text: "too many jobs at a time"}
	}
	switch folded := strings.ToLower(t.Prompt); {
	case t.Prompt == "":
		return nil, &refusal{kind: badInput, text: "the prompt is missing"}
	case strings.Contains(folded, "forbidden at once") && !f.shape.late:
		return nil, &refusal{kind: content, text: "the prompt breaks the rules"}
	}
	if f.config.ID != nil {
		t.ID = f.config.ID()
	} else if t.ID == "" {
		t.ID = uuid.NewString()
	}
	t.State, t.Steps, t.Created = Waiting, f.config.Steps, f.config.Now()
	made := &t
	f.tasks = append(f.tasks, made)
	if f.config.Webhooks == RudeWebhooks {
		f.announceEarly(made)
	}
	f.next()
	f.most = max(f.most, f.atWork())
	return made, nil
}

// atWork is how many jobs wait or run.
func (f *Fake) atWork() int {
	n := 0
	for _, t := range f.tasks {
		if !t.Ended() {
			n++
		}
	}
	return n
}

// next begins jobs that wait, as far as the limit allows, and notes which have ended.
func (f *Fake) next() {
	running := 0
	for _, t := range f.tasks {
		if t.State == Running {
			running++
		}
		if t.Ended() && t.Over.IsZero() {
			t.Over = f.config.Now()
		}
	}
	for _, t := range f.tasks {
		if t.State == Waiting && (f.config.Concurrent == 0 || running < f.config.Concurrent) {
			t.State = Running
			running++
		}
	}
	for _, t := range f.tasks {
		if t.announced != t.State {
			f.announce(t)
		}
	}
}

// find returns the job of an id, or nil.
func (f *Fake) find(id string) *Task {
	for _, t := range f.tasks {
		if t.ID == id {
			return t
		}
	}
	return nil
}

// Step makes all running jobs take a step. A prompt with "forbidden at the end" fails at its last one, and one
// with "fails" too, for another reason.
func (f *Fake) Step() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range f.tasks {
		if t.Ended() && !t.late && f.config.Webhooks == RudeWebhooks {
			t.late = true
			f.announce(t)
		}
		if t.State != Running {
			continue
		}
		if t.Done++; t.Done < t.Steps {
			continue
		}
		t.State = Succeeded
		switch folded := strings.ToLower(t.Prompt); {
		case strings.Contains(folded, "forbidden"):
			t.State, t.Code = Failed, content
		case strings.Contains(folded, "fails"):
			t.State, t.Code = Failed, broken
		}
	}
	f.next()
}

// Refuse makes the provider refuse all calls because of their number, with this Retry-After, until Allow.
func (f *Fake) Refuse(after time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse = &refusal{kind: tooManyCalls, text: "too many requests", after: after}
}

// RunOut makes the provider refuse all calls because the account has no money, until Allow.
func (f *Fake) RunOut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse = &refusal{kind: noCredit, text: "the account has no money"}
}

// Allow ends Refuse and RunOut.
func (f *Fake) Allow() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse = nil
}

// SetKey replaces the account's key.
func (f *Fake) SetKey(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.config.Key = key
}

// Tasks returns all jobs, each of which the provider bills.
func (f *Fake) Tasks() []Task {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []Task
	for _, t := range f.tasks {
		all = append(all, *t)
	}
	return all
}

// Most returns the most jobs that were at the provider at a time.
func (f *Fake) Most() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.most
}

// Average returns how many jobs were at the provider on average between two times.
func (f *Fake) Average(from, to time.Time) float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	var busy time.Duration
	for _, t := range f.tasks {
		begun, over := t.Created, t.Over
		if begun.Before(from) {
			begun = from
		}
		if over.IsZero() || over.After(to) {
			over = to
		}
		busy += max(over.Sub(begun), 0)
	}
	return busy.Seconds() / to.Sub(from).Seconds()
}

// Limited returns how many calls were refused because of a limit.
func (f *Fake) Limited() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.limited
}

// MostCalls returns the most calls in any minute.
func (f *Fake) MostCalls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	most := 0
	for i, at := range f.calls {
		most = max(most, i+1-f.since(at.Add(-time.Minute)))
	}
	return most
}

// film answers the film of a job.
func (f *Fake) film(w http.ResponseWriter, r *http.Request) {
	id := strings.TrimSuffix(r.PathValue("id"), ".mp4")
	f.mu.Lock()
	t := f.find(id)
	f.mu.Unlock()
	if t == nil || f.config.Film == nil {
		http.NotFound(w, r)
		return
	}
	f.sendFilm(w, r, t)
}

// sendFilm answers the film of a job that exists.
func (f *Fake) sendFilm(w http.ResponseWriter, r *http.Request, t *Task) {
	film, err := f.config.Film(*t)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "video/mp4")
	http.ServeContent(w, r, "video.mp4", time.Time{}, strings.NewReader(string(film)))
}

// base is the address at which the fake was called.
func base(r *http.Request) string {
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// filmURL is where the film of a job lies.
func filmURL(r *http.Request, t *Task) string {
	return base(r) + "/films/" + url.PathEscape(t.ID) + ".mp4"
}

// object is a JSON object.
type object = map[string]any

func respond(w http.ResponseWriter, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // a fake answers what JSON can say
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

// retryAfter adds the header Retry-After of a refusal.
func retryAfter(w http.ResponseWriter, e refusal) {
	if e.after > 0 {
		w.Header().Set("Retry-After", fmt.Sprintf("%.0f", max(e.after.Seconds(), 1)))
	}
}

// readBody reads the JSON of a request.
func readBody(r *http.Request) gjson.Result {
	var text json.RawMessage
	if json.NewDecoder(http.MaxBytesReader(nil, r.Body, 64<<20)).Decode(&text) != nil {
		return gjson.Result{}
	}
	return gjson.ParseBytes(text)
}

// bearer reads the key of the usual header.
func bearer(r *http.Request) string {
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
}
