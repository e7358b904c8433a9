package comfyapi

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/web/door"
)

// ServeHTTP implements http.Handler.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := door.NewRequestID()
	w.Header().Set("X-Comfy-Request-Id", id)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	c := &call{Request: r, leave: func() {}}
	defer func() { c.leave() }()
	door.Serve(w, r, func(w http.ResponseWriter) error {
		answer, err := a.answer(w, c)
		if err == nil && answer != nil {
			send(w, answer.status, answer.body)
		}
		return err
	}, func(w http.ResponseWriter, err error) { fail(w, r, id, err) })
}

func (a *api) answer(w http.ResponseWriter, c *call) (*answer, error) {
	var err error
	if c.caller, c.secret, err = door.Admit(c.Request, a.Keys.Authenticate, access.RoleClient); err != nil {
		return nil, err
	}
	byMethod := a.route(c)
	if byMethod == nil {
		return nil, faultf(http.StatusNotFound, "not_found",
			"There is no %s %s. This server offers /api/v2/jobs and /api/v2/assets: see docs/users/comfyui.md.",
			door.Clip(c.Method), door.Clip(c.URL.Path))
	}
	act := byMethod[c.Method]
	if act == nil && c.Method == http.MethodHead {
		act = byMethod[http.MethodGet]
	}
	if act == nil {
		allow := strings.Join(slices.Sorted(maps.Keys(byMethod)), ", ")
		w.Header().Set("Allow", allow)
		return nil, faultf(http.StatusMethodNotAllowed, "method_not_allowed", "%s is not allowed on this URL, which takes %s.",
			door.Clip(c.Method), allow)
	}
	if err := door.NeedlessBody(c.Request); err != nil {
		return nil, err
	}
	return act(w, c)
}

type methods map[string]action

// route returns the actions of a path, and notes the model in it.
func (a *api) route(c *call) methods {
	path := strings.TrimPrefix(c.URL.Path, "/")
	if rest, ok := strings.CutPrefix(path, "comfy/"); ok {
		if c.model, path, ok = strings.Cut(rest, "/"); !ok || c.model == "" {
			return nil
		}
	}
	rest, ok := strings.CutPrefix(path, "api/v2/")
	if !ok {
		return nil
	}
	on := func(act func(http.ResponseWriter, *call, string) (*answer, error), id string) action {
		return func(w http.ResponseWriter, c *call) (*answer, error) {
			answer, err := act(w, c, id)
			return answer, named(err, id)
		}
	}
	switch parts := strings.Split(rest, "/"); {
	case rest == "jobs":
		return methods{http.MethodPost: a.submit, http.MethodGet: a.list}
	case rest == "assets":
		return methods{http.MethodPost: a.upload}
	case rest == "assets/from-hash":
		return methods{http.MethodPost: a.fromHash}
	case len(parts) == 3 && parts[0] == "assets" && parts[1] == "by-hash":
		return methods{http.MethodGet: on(a.byHash, parts[2])}
	case len(parts) == 2 && parts[0] == "jobs":
		return methods{http.MethodGet: on(a.show, parts[1])}
	case len(parts) == 2 && parts[0] == "assets":
		return methods{http.MethodGet: on(a.asset, parts[1]), http.MethodDelete: on(a.drop, parts[1])}
	case len(parts) == 3:
		switch parts[0] + "/" + parts[2] {
		case "jobs/workflow":
			return methods{http.MethodGet: on(a.workflow, parts[1])}
		case "jobs/events":
			return methods{http.MethodGet: on(a.events, parts[1])}
		case "jobs/cancel":
			return methods{http.MethodPost: on(a.cancel, parts[1])}
		case "assets/content":
			return methods{http.MethodGet: on(a.content, parts[1])}
		}
	}
	return nil
}

func faultf(status int, code, format string, args ...any) *fault {
	return &fault{status: status, code: code, message: fmt.Sprintf(format, args...)}
}
