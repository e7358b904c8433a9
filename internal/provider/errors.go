package provider

import (
	"net/http"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// Meaning is what an error of a provider means for a job and for the other jobs at the provider.
type Meaning string

const (
	// Refused is content that the provider does not make. The job fails, and is not tried again.
	Refused Meaning = "CONTENT_POLICY"
	// Invalid is a request that the provider does not understand. The job fails, and is not tried again.
	Invalid Meaning = "INVALID_INPUT"
	// KeyRefused means that the key is wrong, revoked or expired. Jobs wait until it is replaced.
	KeyRefused Meaning = "KEY_REFUSED"
	// NoCredit means that the account has no money or quota left. Jobs wait.
	NoCredit Meaning = "NO_CREDIT"
	// Limited means that there were too many calls, or too many jobs at a time. Nothing was started. All
	// jobs of the provider wait, and no attempt counts.
	Limited Meaning = "RATE_LIMITED"
	// Gone means that the provider does not know the job any more.
	Gone Meaning = "GONE"
	// Crashed is a failure of this one job at the provider. It is tried again.
	Crashed Meaning = "MODEL_CRASH"
	// Passing is a failure that goes away. It is tried again.
	Passing Meaning = "TRANSIENT"
)

// Explained is a meaning with its explanation.
type Explained struct {
	Meaning Meaning
	Text    string
	Retried bool
}

// Meanings explains the meanings, in the order of the documentation.
var Meanings = []Explained{
	{Refused, "The provider does not make such content. The job fails.", false},
	{Invalid, "The provider does not take the request. The job fails.", false},
	{KeyRefused, "The key is wrong, revoked or expired. Jobs wait until it is replaced; the circuit is open.", true},
	{NoCredit, "The account has no money or quota left. Jobs wait; the circuit is open.", true},
	{Limited, "Too many calls or jobs. All jobs of the provider wait, and no attempt counts.", true},
	{Gone, "The provider does not know the job any more. It starts again.", true},
	{Crashed, "The provider failed at this job. It is tried again, and an attempt counts.", true},
	{Passing, "The provider failed for a moment, or nobody knows why. It is tried again, and an attempt counts.", true},
}

// Rule says what an error means. All of Status, Code, Text and Header must fit.
type Rule struct {
	// Status is the HTTP status. 0 fits all; a job that failed has the status 200.
	Status int
	// Code is the code of the error. With a * at its end it fits all codes that begin with it; "" fits all.
	Code string
	// Text is a part of the error's text, in lower case; "" fits all.
	Text string
	// Header is a header of the answer, such as "X-Fal-Retryable: true"; "" fits all.
	Header string
	Means  Meaning
	// Delay is the shortest time until the next try; 0 leaves it to Reelay.
	Delay time.Duration
}

// Usual says what errors mean of which a provider has no rule of its own.
var Usual = []Rule{
	{Status: 400, Means: Invalid}, {Status: 401, Means: KeyRefused}, {Status: 402, Means: NoCredit}, {Status: 403, Means: KeyRefused},
	{Status: 404, Means: Gone}, {Status: 405, Means: Invalid}, {Status: 409, Means: Passing}, {Status: 413, Means: Invalid},
	{Status: 415, Means: Invalid}, {Status: 422, Means: Invalid}, {Status: 429, Means: Limited},
	{Status: 500, Means: Passing}, {Status: 502, Means: Passing}, {Status: 503, Means: Passing}, {Status: 504, Means: Passing},
}

// Fault is an error of a provider.
type Fault struct {
	Status int
	// Code and Reason are what the provider says; they may be empty.
	Code, Reason string
	Rule         Rule
	// Known reports whether a rule fits. An unknown error means Passing.
	Known bool
}

// Fault reads an error from an answer.
func (a *Adapter) Fault(status int, header http.Header, body []byte) Fault {
	f := Fault{Status: status}
	if gjson.ValidBytes(body) {
		f.Code, f.Reason = first(body, a.Codes), first(body, a.Reasons)
	}
	if f.Reason == "" {
		f.Reason = strings.ToValidUTF8(string(body[:min(len(body), 300)]), "")
	}
	f.Rule, f.Known = a.rule(status, f.Code, strings.ToLower(string(body)), header)
	return f
}

// Failure reads why a job failed from what the provider says of it.
func (a *Adapter) Failure(s Status) Fault {
	f := Fault{Status: 200, Code: s.Code, Reason: s.Reason}
	f.Rule, f.Known = a.rule(200, s.Code, strings.ToLower(s.Code+" "+s.Reason), nil)
	if !f.Known {
		f.Rule.Means = Crashed
	}
	return f
}

func (a *Adapter) rule(status int, code, text string, header http.Header) (Rule, bool) {
	for _, rules := range [][]Rule{a.Errors, Usual} {
		for _, r := range rules {
			begin, open := strings.CutSuffix(r.Code, "*")
			fits := r.Code == code || r.Code == "" || open && strings.HasPrefix(code, begin)
			name, value, _ := strings.Cut(r.Header, ": ")
			fits = fits && (name == "" || strings.EqualFold(header.Get(name), value))
			if fits && (r.Status == 0 || r.Status == status) && (r.Text == "" || strings.Contains(text, r.Text)) {
				return r, true
			}
		}
	}
	return Rule{Means: Passing}, false
}

// first returns the first text or number that one of the places holds.
func first(body []byte, places []string) string {
	for _, place := range places {
		if found := gjson.GetBytes(body, place); found.Exists() && found.Type != gjson.Null && !found.IsObject() && !found.IsArray() {
			return found.String()
		}
	}
	return ""
}
