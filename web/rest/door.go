package rest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"path"
	"runtime/debug"
	"strings"

	"github.com/reelay/reelay/internal/httpguard"
	"github.com/reelay/reelay/internal/urlkey"
	"github.com/reelay/reelay/internal/wellformed"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/models"
)

// maxBody bounds a request, in bytes.
const maxBody = 1 << 20

// door lets requests in that are well-formed and whose key is valid.
type door struct {
	inside       *http.ServeMux
	authenticate func(ctx context.Context, secret string) (jobs.Principal, error)
	base         func(*http.Request) string
}

// caller is who asks, and how he wants to be answered.
type caller struct {
	jobs.Principal
	secret string
	base   string // where it reaches this server
	stream bool   // as server-sent events
}

type callerKey struct{}

// callerOf carries who asks from the door to the operations, which hand it to
// jobs as an argument.
func callerOf(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	defer func() {
		if p := recover(); p != nil {
			if p == http.ErrAbortHandler {
				panic(p)
			}
			internal(r.Context(), "panic", "panic", p, "stack", string(debug.Stack())).write(w)
		}
	}()
	if err := d.serve(w, r); err != nil {
		describe(r.Context(), err).write(w)
	}
}

func (d *door) serve(w http.ResponseWriter, r *http.Request) error {
	if err := d.route(w, r); err != nil {
		return err
	}
	if r.URL.Path == openAPIPath {
		d.inside.ServeHTTP(w, r)
		return nil
	}
	query, err := checkQuery(r.URL)
	if err != nil {
		return err
	}
	as, err := d.admit(r)
	if err != nil {
		return err
	}
	if as.stream, err = wantsStream(r); err != nil {
		return err
	}
	if err := readBody(w, r); err != nil {
		return err
	}
	r.URL.RawQuery = query.Encode()
	d.inside.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, as)))
	return nil
}

// route finds out whether there is such a path, and whether it takes the method.
// The mux would answer in plain text, or send the caller to another path.
func (d *door) route(w http.ResponseWriter, r *http.Request) error {
	noPath := newProblem(http.StatusNotFound, apierror.CodeNotFound, "There is no such path: "+openAPIPath+" lists those that there are.")
	if path.Clean(r.URL.Path) != r.URL.Path {
		return noPath
	}
	handler, pattern := d.inside.Handler(r)
	if pattern != "" {
		return nil
	}
	plain := &headerWriter{header: http.Header{}}
	handler.ServeHTTP(plain, r)
	if plain.status != http.StatusMethodNotAllowed {
		return noPath
	}
	allowed := plain.header.Get("Allow")
	w.Header().Set("Allow", allowed)
	return newProblem(http.StatusMethodNotAllowed, apierror.CodeInvalidInput, "This path takes "+allowed+".")
}

// headerWriter keeps an answer's status and header, and nothing else.
type headerWriter struct {
	header http.Header
	status int
}

func (w *headerWriter) Header() http.Header         { return w.header }
func (w *headerWriter) Write(b []byte) (int, error) { return len(b), nil }
func (w *headerWriter) WriteHeader(status int)      { w.status = status }

// checkQuery refuses what huma would read in part, and keys where every log on
// the way keeps them.
func checkQuery(u *url.URL) (url.Values, error) {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, badRequest("The part of the URL behind the question mark cannot be read.")
	}
	if urlkey.IsIn(query) {
		return nil, badRequest(urlkey.Refusal)
	}
	for name, values := range query {
		if len(values) > 1 {
			return nil, twice("The URL", "parameter", name)
		}
	}
	return query, nil
}

// admit returns who asks. All of this API is for clients, and for operators, who
// may do what clients may.
func (d *door) admit(r *http.Request) (caller, error) {
	keys := r.Header.Values("Authorization")
	if len(keys) > 1 {
		return caller{}, twice("The request", "header", "Authorization")
	}
	secret := bearer(r.Header.Get("Authorization"))
	p, err := d.authenticate(r.Context(), secret)
	if err != nil {
		return caller{}, err
	}
	httpguard.ConnOf(r.Context()).MarkKnown()
	if !p.May(models.RoleClient) {
		return caller{}, &apierror.Error{Code: apierror.CodeForbidden, Message: "This API takes a key of the role CLIENT; this key's role is " + string(p.Role) + "."}
	}
	return caller{Principal: p.From(r.RemoteAddr), secret: secret, base: d.base(r)}, nil
}

// bearer is the key in an Authorization header, or nothing.
func bearer(authorization string) string {
	scheme, key, _ := strings.Cut(strings.TrimSpace(authorization), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(key)
}

const eventStream = "text/event-stream"

// wantsStream tells whether the caller asks for server-sent events. It refuses
// who takes nothing that the path can give.
func wantsStream(r *http.Request) (bool, error) {
	streams := strings.HasSuffix(r.URL.Path, "/events")
	accepted := strings.Join(r.Header.Values("Accept"), ",")
	if strings.TrimSpace(accepted) == "" || strings.HasSuffix(r.URL.Path, "/video") {
		return false, nil // a film is whatever the link leads to
	}
	for part := range strings.SplitSeq(accepted, ",") {
		media, params, err := mime.ParseMediaType(part)
		if err != nil || params["q"] == "0" {
			continue
		}
		switch media {
		case eventStream:
			if streams {
				return true, nil
			}
		case "application/json", "application/problem+json", "application/*", "*/*":
			if !streams || !strings.Contains(accepted, eventStream) {
				return false, nil
			}
		}
	}
	if !streams {
		return false, newProblem(http.StatusNotAcceptable, apierror.CodeInvalidInput, "This path answers with application/json: accept that.")
	}
	return false, newProblem(http.StatusNotAcceptable, apierror.CodeInvalidInput, "This path answers with application/json or text/event-stream: accept one of them.")
}

// readBody reads the body of a POST whole and checks it before anything decodes
// it; others have none.
func readBody(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		r.Body = http.NoBody
		return nil
	}
	media, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if charset := params["charset"]; err != nil || media != "application/json" || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return newProblem(http.StatusUnsupportedMediaType, apierror.CodeInvalidInput, "Send the request as Content-Type: application/json, in UTF-8.")
	}
	if r.Header.Get("Content-Encoding") != "" {
		return newProblem(http.StatusUnsupportedMediaType, apierror.CodeInvalidInput, "Send the body as it is, without a Content-Encoding.")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return newProblem(http.StatusRequestEntityTooLarge, apierror.CodeInvalidInput, "The body is larger than 1 MiB.")
	case err != nil:
		return badRequest("The request ended, or stopped, before its body did.")
	}
	if err := wellformed.JSON(body); err != nil {
		return malformed(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return nil
}

// twice refuses what is there twice: a header, a parameter or a key.
func twice(in, what, name string) *problem {
	if len(name) > maxShown {
		return badRequest("%s has a %s twice: send it once.", in, what)
	}
	p := badRequest("%s has the %s %s twice: send it once.", in, what, name)
	p.Field = name
	return p
}

func malformed(err error) error {
	var duplicate *wellformed.DuplicateError
	switch {
	case errors.As(err, &duplicate):
		return twice("The body", "key", duplicate.Path)
	case errors.Is(err, wellformed.ErrNotUTF8):
		return badRequest("The body is not valid UTF-8.")
	case errors.Is(err, wellformed.ErrLoneSurrogate):
		return badRequest(`The body holds half of a character (a \ud800–\udfff escape without its other half): send the whole character.`)
	case errors.Is(err, wellformed.ErrTooDeep):
		return badRequest("The body is nested more than %d levels deep.", wellformed.MaxDepth)
	}
	return badRequest("The body is not one JSON document.")
}
