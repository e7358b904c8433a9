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
	"slices"
	"strings"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/httpguard"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/web/door"
)

// handler passes requests to the operations if they are well-formed and their key
// is valid.
type handler struct {
	inside       *http.ServeMux
	authenticate door.Authenticate
	base         func(*http.Request) string
	// bodies has the patterns of the mux whose operations take a body.
	bodies map[string]bool
	// methods has the methods of each path without parameters, as the header Allow lists them. The
	// mux would take its last word for an id if another operation has one there.
	methods map[string][]string
	// filled has, by pattern, the parameters of the URL that cannot be empty.
	filled map[string][]string
	large  *httpguard.LargeBodies
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	door.Serve(w, r, func(w http.ResponseWriter) error { return h.serve(w, r) }, func(w http.ResponseWriter, err error) {
		describe(r.Context(), err).write(w)
	})
}

func (h *handler) serve(w http.ResponseWriter, r *http.Request) error {
	pattern, err := h.route(w, r)
	if err != nil {
		return err
	}
	if err := door.NeedlessBody(r); err != nil {
		return err
	}
	if r.URL.Path == openAPIPath {
		h.inside.ServeHTTP(w, r)
		return nil
	}
	p, secret, err := door.Admit(r, h.authenticate, access.RoleClient)
	if err != nil {
		return err
	}
	query, err := readQuery(r.URL, h.filled[pattern])
	if err != nil {
		return err
	}
	stream, err := wantsStream(r)
	if err != nil {
		return err
	}
	if !h.bodies[pattern] {
		r.Body = http.NoBody // what a caller sends is ignored
	} else {
		bound := int64(httpguard.SmallBody)
		if takesLarge(pattern) && r.ContentLength > bound {
			leave, ok := h.large.Enter(r.Context(), string(p.AccountID))
			if !ok {
				return apierror.ErrBusy
			}
			defer leave()
			bound = httpguard.LargeBody
		}
		err := readBody(w, r, bound)
		if takesLarge(pattern) && r.ContentLength < 0 && isTooLarge(err) {
			return refused(http.StatusRequestEntityTooLarge,
				"The body is larger than %d KiB. A workflow may have %d KiB if its size is known: send it with a Content-Length.", bound>>10,
				httpguard.LargeBody>>10)
		}
		if err != nil {
			return err
		}
	}
	r.URL.RawQuery = query.Encode()
	ctx := context.WithValue(r.Context(), callerKey{}, caller{Principal: p, secret: secret, base: h.base(r), stream: stream})
	h.inside.ServeHTTP(w, r.WithContext(ctx))
	return nil
}

// route checks that the path exists and takes the method. The mux itself would
// respond in plain text, or with a redirect. It returns the pattern of the operation.
func (h *handler) route(w http.ResponseWriter, r *http.Request) (string, error) {
	noPath := newProblem(http.StatusNotFound, apierror.CodeNotFound, "There is no such path. "+openAPIPath+" lists all paths.")
	if plain := path.Clean(r.URL.Path); plain != r.URL.Path {
		if r.URL.Path == plain+"/" {
			noPath.Detail = "There is no such path: leave out the slash at its end. " + openAPIPath + " lists all paths."
		}
		return "", noPath
	}
	found, pattern := h.inside.Handler(r)
	allowed := strings.Join(h.methods[r.URL.Path], ", ")
	if pattern != "" && (allowed == "" || slices.Contains(h.methods[r.URL.Path], r.Method)) {
		return pattern, nil
	}
	if allowed == "" {
		plain := &headerWriter{header: http.Header{}}
		found.ServeHTTP(plain, r)
		if plain.status != http.StatusMethodNotAllowed {
			return "", noPath
		}
		allowed = plain.header.Get("Allow")
	}
	w.Header().Set("Allow", allowed)
	return "", refused(http.StatusMethodNotAllowed, "This path takes %s.", allowed)
}

// headerWriter keeps the status and the header of a response, and nothing else.
type headerWriter struct {
	header http.Header
	status int
}

func (w *headerWriter) Header() http.Header         { return w.header }
func (w *headerWriter) Write(b []byte) (int, error) { return len(b), nil }
func (w *headerWriter) WriteHeader(status int)      { w.status = status }

// readQuery refuses a query that huma would read in part: it takes an empty parameter for none.
func readQuery(u *url.URL, filled []string) (url.Values, error) {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, refused(http.StatusBadRequest, "The query of the URL is malformed.")
	}
	for name, values := range query {
		if len(values) > 1 {
			return nil, door.Duplicate("The URL", "parameter", name)
		}
		if values[0] == "" && slices.Contains(filled, name) {
			p := refused(http.StatusUnprocessableEntity, "%s is empty: give it a value, or leave it out.", name)
			p.Field = name
			return nil, p
		}
	}
	return query, nil
}

const eventStream = "text/event-stream"

// wantsStream reports whether the caller asks for server-sent events. It refuses a
// caller that accepts nothing that the path can send.
func wantsStream(r *http.Request) (bool, error) {
	streams := strings.HasSuffix(r.URL.Path, "/events")
	accepted := strings.Join(r.Header.Values("Accept"), ",")
	if strings.TrimSpace(accepted) == "" || strings.HasSuffix(r.URL.Path, "/video") || path.Ext(r.URL.Path) != "" {
		return false, nil // a video has the media type of the link's target, and a file that of its name
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
		return false, refused(http.StatusNotAcceptable, "This path responds with application/json: accept that.")
	}
	return false, refused(http.StatusNotAcceptable, "This path responds with application/json or text/event-stream: accept one of them.")
}

// takesLarge reports whether an operation takes a workflow, and so a large body.
func takesLarge(pattern string) bool {
	return pattern == createWorkflow || pattern == createSchedule || pattern == createRecurring
}

func isTooLarge(err error) bool {
	refusal, ok := errors.AsType[*door.Refusal](err)
	return ok && refusal.Reason == door.TooLarge
}

// readBody reads and checks a body of up to bound bytes before anything decodes it.
func readBody(w http.ResponseWriter, r *http.Request, bound int64) error {
	media, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if charset := params["charset"]; err != nil || media != "application/json" || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return refused(http.StatusUnsupportedMediaType, "Send the request as Content-Type: application/json, in UTF-8.")
	}
	if r.Header.Get("Content-Encoding") != "" {
		w.Header().Set("Accept-Encoding", "identity")
		return refused(http.StatusUnsupportedMediaType, "Send the body without a Content-Encoding.")
	}
	body, err := door.ReadJSON(http.MaxBytesReader(w, r.Body, bound))
	r.Body = io.NopCloser(bytes.NewReader(body))
	return err
}
