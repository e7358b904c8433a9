// Package recording drives an engine through a fixed list of named exchanges and writes down its answers.
// The same list is run against the real engine, which gives the recordings, and against its fake, whose
// answers have to have the same shape.
package recording

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"regexp"
	"sort"
	"strings"
	"testing"

	"github.com/reelay/reelay/internal/testrun"
)

// Exchange is a request and its answer. Values that differ from run to run are replaced by names in braces,
// numbers by 0.
type Exchange struct {
	Name         string            `json:"name"`
	Method       string            `json:"method"` // EVENTS for what the engine sends by itself
	Path         string            `json:"path"`
	Header       map[string]string `json:"header,omitempty"`
	Body         json.RawMessage   `json:"body,omitempty"`
	Status       int               `json:"status"`
	AnswerHeader map[string]string `json:"answerHeader,omitempty"`
	Answer       json.RawMessage   `json:"answer,omitempty"` // JSON, or a string with the text or the size of a file
}

// Engine is what a list of exchanges is run against.
type Engine struct {
	URL     string
	Restart func() // kills it and starts it at the same address
	Step    func() // makes a fake go on; a real engine does by itself
}

// Recorder runs exchanges.
type Recorder struct {
	Exchanges []Exchange

	t      testing.TB
	engine Engine
	names  map[string]string
}

// New returns a recorder of an engine.
func New(t testing.TB, engine Engine) *Recorder {
	return &Recorder{t: t, engine: engine, names: map[string]string{engine.URL: "{engine}"}}
}

// Answer is what an engine answered.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Form is a multipart body. The value of a file begins with @, and its name follows up to a colon.
type Form map[string]string

// Name replaces a value in all that is recorded from now on.
func (r *Recorder) Name(value, name string) { r.names[value] = "{" + name + "}" }

// Do records an exchange. A body is nil, a string, a Form, or what JSON can say. Headers are pairs.
func (r *Recorder) Do(name, method, path string, body any, header ...string) Answer {
	r.t.Helper()
	answer := r.Send(method, path, body, header...)
	e := Exchange{Name: name, Method: method, Path: r.clean(path), Status: answer.Status, Answer: r.answer(answer)}
	for i := 0; i+1 < len(header); i += 2 {
		e.Header = put(e.Header, header[i], r.clean(header[i+1]))
	}
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			r.t.Fatal(err)
		}
		e.Body = json.RawMessage(r.clean(string(text)))
	}
	for _, key := range []string{"Content-Type", "Content-Range", "Accept-Ranges"} {
		if value := answer.Header.Get(key); value != "" {
			e.AnswerHeader = put(e.AnswerHeader, key, r.clean(value))
		}
	}
	r.Exchanges = append(r.Exchanges, e)
	return answer
}

// Events records what an engine has sent. Each event has a type.
func (r *Recorder) Events(name, path string, events []map[string]any) {
	text, err := json.Marshal(events)
	if err != nil {
		r.t.Fatal(err)
	}
	r.Exchanges = append(r.Exchanges, Exchange{Name: name, Method: "EVENTS", Path: r.clean(path), Answer: r.json(text)})
}

// Send makes a call that is not recorded.
func (r *Recorder) Send(method, path string, body any, header ...string) Answer {
	r.t.Helper()
	reader, contentType := encode(r.t, body)
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.engine.URL+path, reader)
	if err != nil {
		r.t.Fatal(err)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return Answer{Status: res.StatusCode, Header: res.Header, Body: text}
}

// Until repeats a call, which is not recorded, until its answer is as wanted. A fake takes a step each time.
func (r *Recorder) Until(what, path string, wanted func(Answer) bool) {
	r.t.Helper()
	testrun.Eventually(r.t, what, func() bool {
		if wanted(r.Send(http.MethodGet, path, nil)) {
			return true
		}
		r.engine.Step()
		return false
	})
}

// Object returns the answer's JSON object.
func (a Answer) Object(t testing.TB) map[string]any {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal(a.Body, &object); err != nil {
		t.Fatalf("%v: %.300s", err, a.Body)
	}
	return object
}

func encode(t testing.TB, body any) (io.Reader, string) {
	switch body := body.(type) {
	case nil:
		return nil, ""
	case string:
		return strings.NewReader(body), "application/json"
	case Form:
		var text bytes.Buffer
		w := multipart.NewWriter(&text)
		for _, key := range keys(body) {
			value := body[key]
			if file, content, ok := strings.Cut(strings.TrimPrefix(value, "@"), ":"); ok && value[0] == '@' {
				part, err := w.CreateFormFile(key, file)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = part.Write([]byte(content))
				continue
			}
			_ = w.WriteField(key, value)
		}
		_ = w.Close()
		return &text, w.FormDataContentType()
	default:
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.NewReader(text), "application/json"
	}
}

func put(m map[string]string, key, value string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	return m
}

func keys[V any](m map[string]V) []string {
	list := make([]string, 0, len(m))
	for key := range m {
		list = append(list, key)
	}
	sort.Strings(list)
	return list
}

// answer returns a body as it is recorded.
func (r *Recorder) answer(a Answer) json.RawMessage {
	if json.Valid(a.Body) {
		return r.json(a.Body)
	}
	text := r.clean(string(a.Body))
	if strings.HasPrefix(a.Header.Get("Content-Type"), "video/") || strings.HasPrefix(a.Header.Get("Content-Type"), "image/") {
		text = "{file}"
		if a.Status == http.StatusPartialContent {
			text = fmt.Sprintf("{%d bytes}", len(a.Body))
		}
	}
	quoted, _ := json.Marshal(text) // a string can be
	return quoted
}

// json replaces what differs from run to run in JSON.
func (r *Recorder) json(text []byte) json.RawMessage {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // a float64 would round large ones
	var value any
	if err := decoder.Decode(&value); err != nil {
		r.t.Fatal(err)
	}
	clean, err := json.Marshal(r.value("", value))
	if err != nil {
		r.t.Fatal(err)
	}
	return clean
}

var (
	// volatileNumber matches the keys of numbers that differ from run to run.
	volatileNumber = regexp.MustCompile(`((created|completed|started)_at|_s|_time|timestamp|_total|_free|denoise|` +
		`peak_memory_mb|size_bytes)$`)
	// volatileText matches the keys of texts that say how this machine is set up.
	volatileText = regexp.MustCompile(`^(python_version|pytorch_version|python|traceback|current_inputs|current_outputs|logs|argv|` +
		`git_sha|build_time)$`)
	anyUUID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	video   = regexp.MustCompile(`video_gen_[0-9a-f]{32}`)
	moment  = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+(Z|\+00:00)`)
	data    = regexp.MustCompile(`data:video/mp4;base64,[A-Za-z0-9+/=]+`)
	folder  = regexp.MustCompile(`/[^ "']*/(\{[a-z: ]+\}\.mp4)`)
	size    = regexp.MustCompile(`^(bytes (\*|\d+-\d+))/\d+$`)
)

func (r *Recorder) value(key string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		clean := map[string]any{}
		for k, inner := range v {
			clean[r.clean(k)] = r.value(k, inner)
		}
		return clean
	case []any:
		if volatileText.MatchString(key) {
			return []any{"{" + key + "}"}
		}
		clean := make([]any, len(v))
		for i, inner := range v {
			clean[i] = r.value(key, inner)
		}
		return clean
	case json.Number:
		if volatileNumber.MatchString(key) {
			return 0
		}
	case string:
		if volatileText.MatchString(key) && v != "" {
			return "{" + key + "}"
		}
		return r.clean(v)
	}
	return v
}

func (r *Recorder) clean(text string) string {
	for _, value := range keys(r.names) {
		text = strings.ReplaceAll(text, value, r.names[value])
	}
	text = anyUUID.ReplaceAllString(text, "{uuid}")
	text = video.ReplaceAllString(text, "{video}")
	text = moment.ReplaceAllString(text, "{time}")
	text = data.ReplaceAllString(text, "data:video/mp4;base64,{file}")
	text = folder.ReplaceAllString(text, "{folder}/$1")
	return size.ReplaceAllString(text, "$1/{size}")
}
