// Package provider says how hosted providers of videos are spoken to, such as Runway: a request, its
// state, its errors and its limits. Each provider has one file with one [Adapter], which makes no calls
// itself. docs/developers/providers.md explains how to write one.
package provider

import (
	"encoding/base64"
	"fmt"
	"mime"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// Adapter is one generation of a provider's API. A place is a path of github.com/tidwall/gjson in a JSON
// text, such as output.0.url.
type Adapter struct {
	// Name is the runtime of the models that the provider renders, and the kind of its pools.
	Name string
	// Title is the provider's name for people, and Version the generation of its API.
	Title, Version string
	// URL is where the API is. It is empty if it differs for each customer.
	URL string
	// Auth says how the key is sent, and Headers are sent with each call.
	Auth    Auth
	Headers map[string]string
	// Concurrent and PerMinute are the usual limits of an account: jobs at a time, and calls in a minute.
	Concurrent, PerMinute int
	// Every is the shortest time between two polls of a job; 0 means 5 s.
	Every time.Duration

	// Model and Prompt are the places of the model and the prompt in the request; "" leaves one out.
	Model, Prompt string
	// OneModel means that the address of the API says which model it is, so that settings need not.
	OneModel bool
	// Fields are the places of the usual parameters. What follows a = is a format for the value, such as
	// duration=%ss, and makes it a text. A file becomes a data URI, or with =base64 its bytes in base64.
	Fields map[string]string
	// Submit returns the call that starts a job.
	Submit func(r *Request) (Call, error)
	// Ref is the place of the job's id in the answer.
	Ref string

	// Asked are the places of what the provider bills by, in the body of the submit.
	Asked Reads

	// Poll returns the call that asks for the state of a job.
	Poll func(t Task) Call
	// Same is the place of the job's id in the answer of Poll; "" if it has none.
	Same string
	// State is the place of the state in the answer, and States are all states that the provider documents.
	State  string
	States map[string]State
	// Progress is the place of the progress, and Whole is its value at the end, such as 1 or 100.
	Progress string
	Whole    float64
	// Result returns a second call for the result, if the answer of Poll does not have it; optional.
	Result func(t Task) Call
	// Files is the place of the address of the video, or of a list of them.
	Files string
	// Read completes what the places say; optional. It gets the answer that has the result, or with
	// another state that of Poll.
	Read func(answer gjson.Result, s *Status)
	// OwnFiles means that videos lie at the provider's API itself, which wants the key for them.
	OwnFiles bool
	// InlineFilms means that an answer can hold the film itself.
	InlineFilms bool

	// Codes and Reasons are the places of the code and the text of an error: the first that is there counts.
	Codes, Reasons []string
	// Errors says what errors mean. The first rule that fits counts, and after them [Usual].
	Errors []Rule

	// Cancel returns the call that stops a job; nil if the provider cannot.
	Cancel func(t Task) Call
	// Lookup returns the call that looks for a job whose submit was not answered; nil if the provider has
	// none. Found returns the job's id in its answer, or "": sure says then that there is no such job.
	// Otherwise the answer does not tell it from others, and only people can decide.
	Lookup func(t Task) Call
	Found  func(answer gjson.Result, t Task) (ref string, sure bool)
	// Webhooks means that Submit takes an address for webhooks. A webhook only brings the next poll forward: its
	// text and its signature are not read.
	Webhooks bool
}

// Auth says how the key is sent.
type Auth string

const (
	// Bearer sends "Authorization: Bearer KEY".
	Bearer Auth = "Bearer"
	// Key sends "Authorization: Key KEY".
	Key Auth = "Key"
	// GoogleKey sends the header x-goog-api-key.
	GoogleKey Auth = "x-goog-api-key"
	// GoogleAccount sends the access token of a Google account: that of a file of credentials, or the
	// machine's own.
	GoogleAccount Auth = "google"
)

// Header returns the header for a key.
func (a Auth) Header(key string) http.Header {
	header := http.Header{}
	if a == GoogleKey {
		header.Set(string(a), key)
	} else if a == GoogleAccount {
		header.Set("Authorization", "Bearer "+key)
	} else {
		header.Set("Authorization", string(a)+" "+key)
	}
	return header
}

// Call is one call of a provider's API.
type Call struct {
	Method string
	// Path begins with a slash, follows the address of the API, and may have a query.
	Path   string
	Body   []byte // JSON, or nil
	Header map[string]string
}

// Get returns a GET.
func Get(path string) Call { return Call{Method: http.MethodGet, Path: path} }

// Post returns a POST with a JSON text.
func Post(path string, body []byte) Call {
	return Call{Method: http.MethodPost, Path: path, Body: body}
}

// Delete returns a DELETE.
func Delete(path string) Call { return Call{Method: http.MethodDelete, Path: path} }

// Task is a job at a provider. Everything but Ref is the same before and after the submit.
type Task struct {
	// Ref is the provider's id of it, which may hold any character.
	Ref string
	// Key is Reelay's own id of it, a UUID, and Model the provider's name of its model.
	Key, Model, Prompt string
	// Since is when it was submitted, in seconds since 1970 by the provider's clock; 0 if that is unknown.
	Since int64
}

// Request is a submit in the making.
type Request struct {
	Task
	// Body has the model, the prompt, the parameters and what the settings fix.
	Body []byte
	// Hook is where the provider may send webhooks, or "".
	Hook string
	// Files are the job's files by parameter.
	Files map[string]File
}

// Has reports whether the body has something at a place.
func (r *Request) Has(place string) bool { return gjson.GetBytes(r.Body, place).Exists() }

// Set writes a value to a place of the body. It panics if the place is malformed, which tests find.
func (r *Request) Set(place string, value any) {
	body, err := sjson.SetBytes(r.Body, place, value)
	if err != nil {
		panic(fmt.Sprintf("provider: the place %q: %v", place, err))
	}
	r.Body = body
}

// Drop removes what the body has at a place.
func (r *Request) Drop(place string) {
	if body, err := sjson.DeleteBytes(r.Body, place); err == nil {
		r.Body = body
	}
}

// File is a file of a job.
type File struct {
	Data []byte
	Type string // its media type
}

// FileOf returns the file with that name and content.
func FileOf(name string, data []byte) File {
	kind := mime.TypeByExtension(strings.ToLower(filepath.Ext(name)))
	if kind == "" {
		kind = http.DetectContentType(data)
	}
	return File{data, kind}
}

// Encode returns the file as a field's format has it.
func (f File) Encode(format string) string {
	text := base64.StdEncoding.EncodeToString(f.Data)
	if format == "base64" {
		return text
	}
	return "data:" + f.Type + ";base64," + text
}

// State is the state of a job at a provider.
type State string

// The states of a job. The first three are phases that are shown of a job.
const (
	Submitted      State = "SUBMITTED"
	Generating     State = "GENERATING"
	PostProcessing State = "POST_PROCESSING"
	Succeeded      State = "SUCCEEDED"
	Failed         State = "FAILED"
	Cancelled      State = "CANCELLED"
)

// Status is what a provider says of a job.
type Status struct {
	State State
	// Done is the finished part from 0 to 1, or negative if it is unknown.
	Done float64
	// Files are the addresses of the results, the best first.
	Files []string
	// Inline is the video, if the answer holds it.
	Inline []byte
	// Code and Reason say why it failed.
	Code, Reason string
}
