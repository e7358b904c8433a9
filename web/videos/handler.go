package videos

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/httpguard"
	"github.com/reelay/reelay/internal/urlkey"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/jobs/video"
	"github.com/reelay/reelay/models"
)

// Inputs stores what clients send along.
type Inputs interface {
	// Put stores a file whole and returns its artifact, or INVALID_INPUT.
	Put(ctx context.Context, p jobs.Principal, contentType string, body io.Reader) (*models.Artifact, error)
}

// Config is what the API is made of.
type Config struct {
	// Authenticate returns who holds a key, or UNAUTHENTICATED.
	Authenticate func(ctx context.Context, secret string) (jobs.Principal, error)
	Videos       *video.Videos
	// Inputs may be nil: then files are refused.
	Inputs Inputs
	Models Models
	// FilmsKept is how long a film stays after its job's end.
	FilmsKept time.Duration
}

type api struct {
	Config
	// large lets few bodies at once be as large as an image makes them.
	large chan struct{}
}

// maxLarge bounds what bodies take of the memory: each about three times
// maxBody, until it is answered.
const maxLarge = 8

// New serves every path below /v1/.
func New(c Config) http.Handler { return &api{Config: c, large: make(chan struct{}, maxLarge)} }

// call is one request, of a caller who is known.
type call struct {
	*http.Request
	came   time.Time
	secret string
	caller jobs.Principal
	// release lets the next large body in.
	release func()
}

// action answers a call with its result, which is sent as JSON with status 200,
// or has answered by itself if that is nil.
type action func(http.ResponseWriter, *call) (any, error)

// ServeHTTP implements http.Handler.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	id := newRequestID()
	header.Set("X-Request-Id", id)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	sent := &sending{ResponseWriter: w}
	w = sent
	c := &call{Request: r, came: time.Now(), release: func() {}}
	defer func() { c.release() }()
	defer func() {
		p := recover()
		switch {
		case p == nil:
		case p == http.ErrAbortHandler:
			panic(p)
		default:
			ctx := context.WithoutCancel(r.Context()) // the log shall have it, though the caller may have gone
			err := fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			if sent.begun { // a part of a film, which must not look whole
				slog.ErrorContext(ctx, "videos request failed", "method", r.Method, "path", r.URL.Path, "request", id, "error", err)
				panic(http.ErrAbortHandler)
			}
			fail(w, r.WithContext(ctx), id, err)
		}
	}()
	answer, err := a.answer(w, c)
	if err != nil {
		fail(w, r, id, err)
		return
	}
	if answer != nil {
		send(w, http.StatusOK, answer)
	}
}

// sending is an answer, and whether a part of it may have gone out.
type sending struct {
	http.ResponseWriter
	begun bool
}

func (s *sending) WriteHeader(status int) {
	s.begun = true
	s.ResponseWriter.WriteHeader(status)
}

func (s *sending) Write(p []byte) (int, error) {
	s.begun = true
	return s.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (s *sending) Unwrap() http.ResponseWriter { return s.ResponseWriter }

func (a *api) answer(w http.ResponseWriter, c *call) (any, error) {
	if urlkey.IsIn(c.URL.Query()) {
		return nil, invalid("invalid_value", "", "%s", urlkey.Refusal)
	}
	keys := c.Header.Values("Authorization")
	if len(keys) > 1 {
		return nil, invalid("invalid_value", "", "The request has the header Authorization twice: send it once.")
	}
	var err error
	c.secret = bearer(strings.Join(keys, ""))
	if c.caller, err = a.Authenticate(c.Context(), c.secret); err != nil {
		return nil, err
	}
	httpguard.ConnOf(c.Context()).MarkKnown()
	if !c.caller.May(models.RoleClient) {
		return nil, &apierror.Error{Code: apierror.CodeForbidden, Message: "This takes a key of the role CLIENT; this key's role is " + string(c.caller.Role) + "."}
	}
	c.caller = c.caller.From(c.RemoteAddr)
	byMethod := a.route(c.URL.Path)
	if byMethod == nil {
		return nil, errNoRoute(c.Method, c.URL.Path)
	}
	act := byMethod[c.Method]
	if act == nil && c.Method == http.MethodHead {
		act = byMethod[http.MethodGet]
	}
	if act == nil {
		return nil, errMethod(w, c.Method, byMethod)
	}
	return act(w, c)
}

type methods map[string]action

// route returns what may be done at a path. Words win over ids: no id can be
// taken for one of them.
func (a *api) route(path string) methods {
	parts := strings.Split(strings.TrimPrefix(path, "/v1/"), "/")
	switch {
	case parts[0] == "models" && len(parts) == 1:
		return methods{http.MethodGet: a.listModels}
	case parts[0] == "models":
		name := strings.Join(parts[1:], "/")
		return methods{http.MethodGet: func(_ http.ResponseWriter, _ *call) (any, error) { return a.model(name) }}
	case parts[0] != "videos":
		return nil
	case len(parts) == 1:
		return methods{http.MethodPost: a.create, http.MethodGet: a.list}
	case len(parts) == 2 && (parts[1] == "edits" || parts[1] == "extensions" || parts[1] == "characters"):
		return methods{http.MethodPost: notOffered(parts[1])}
	case len(parts) == 3 && parts[1] == "characters":
		return methods{http.MethodGet: notOffered(parts[1])}
	}
	return a.routeVideo(parts[1], parts[2:])
}

func (a *api) routeVideo(id string, rest []string) methods {
	on := func(act func(http.ResponseWriter, *call, models.JobID) (any, error)) action {
		return func(w http.ResponseWriter, c *call) (any, error) {
			job, ok := models.ParseVideoID(id)
			if !ok {
				return nil, errNoVideo(id)
			}
			answer, err := act(w, c, job)
			return answer, orNoVideo(err, id)
		}
	}
	switch {
	case len(rest) == 0:
		return methods{http.MethodGet: on(a.retrieve), http.MethodDelete: on(a.delete)}
	case len(rest) == 1 && rest[0] == "content":
		return methods{http.MethodGet: on(a.content)}
	case len(rest) == 1 && rest[0] == "remix":
		return methods{http.MethodPost: on(a.remix)}
	}
	return nil
}

func (a *api) retrieve(w http.ResponseWriter, c *call, id models.JobID) (any, error) {
	v, err := a.Videos.Get(c.Context(), c.caller, id)
	if err != nil {
		return nil, err
	}
	return a.show(w, v), nil
}

func (a *api) delete(_ http.ResponseWriter, c *call, id models.JobID) (any, error) {
	if err := a.Videos.Delete(c.Context(), c.caller, id); err != nil {
		return nil, err
	}
	return deleted{ID: models.VideoID(id), Object: "video.deleted", Deleted: true}, nil
}

type deleted struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Deleted bool   `json:"deleted"`
}

// bearer is the key in an Authorization header.
func bearer(authorization string) string {
	scheme, key, found := strings.Cut(strings.TrimSpace(authorization), " ")
	if found && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(key)
	}
	return ""
}

func newRequestID() string {
	random := make([]byte, 16)
	rand.Read(random)
	return "req_" + hex.EncodeToString(random)
}

func send(w http.ResponseWriter, status int, answer any) {
	body, err := json.Marshal(answer)
	if err != nil { // none of our answers holds what JSON cannot
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // who has gone away needs no answer
}
