package videos

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/web/door"
)

// ServeHTTP implements http.Handler.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	id := door.NewRequestID()
	header.Set("X-Request-Id", id)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	c := &call{Request: r, came: time.Now(), leave: func() {}}
	defer func() { c.leave() }()
	door.Serve(w, r, func(w http.ResponseWriter) error {
		answer, err := a.answer(w, c)
		if err == nil && answer != nil {
			send(w, http.StatusOK, answer)
		}
		return err
	}, func(w http.ResponseWriter, err error) { fail(w, r, id, err) })
}

func (a *api) answer(w http.ResponseWriter, c *call) (any, error) {
	var err error
	if c.caller, c.secret, err = door.Admit(c.Request, a.Authenticate, access.RoleClient); err != nil {
		return nil, err
	}
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
	if err := door.NeedlessBody(c.Request); err != nil {
		return nil, err
	}
	return act(w, c)
}

type methods map[string]action

// route returns the actions of a path. Words take precedence over ids, which never
// look like one of them.
func (a *api) route(path string) methods {
	parts := strings.Split(strings.TrimPrefix(path, "/v1/"), "/")
	switch {
	case parts[0] == "models" && len(parts) == 1:
		return methods{http.MethodGet: a.listModels}
	case parts[0] == "models":
		name := strings.Join(parts[1:], "/")
		return methods{http.MethodGet: func(_ http.ResponseWriter, c *call) (any, error) { return a.model(c, name) }}
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

func errNoRoute(method, path string) error {
	return missing("unknown_url", "Unknown request URL: %s %s. This server offers /v1/videos and /v1/models.", door.Clip(method),
		door.Clip(path))
}

func errMethod(w http.ResponseWriter, method string, allowed methods) error {
	allow := strings.Join(slices.Sorted(maps.Keys(allowed)), ", ")
	w.Header().Set("Allow", allow)
	return &fault{
		status: http.StatusMethodNotAllowed, kind: kindInvalid, code: "method_not_supported",
		message: fmt.Sprintf("%s is not allowed on this URL, which takes %s.", door.Clip(method), allow),
	}
}

// notOffered refuses a part of OpenAI's API that this server does not have.
func notOffered(what string) action {
	return func(http.ResponseWriter, *call) (any, error) {
		return nil, missing("not_supported", "This server does not offer video %s: it offers create, retrieve, list, delete, content and remix.",
			what)
	}
}
