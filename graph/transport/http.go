package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/99designs/gqlgen/graphql"
	"github.com/reelay/reelay/graph/failure"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// HTTP answers one operation with one response: an operation in the body of a POST, or a
// query in the URL of a GET.
//
// gqlgen's own transports accept requests that mean different things to different
// parsers, such as one with a key twice. They also answer an operation that did not run
// with "data": null, and set no headers for the error in a response.
type HTTP struct{}

var _ graphql.Transport = HTTP{}

// Supports implements graphql.Transport.
func (HTTP) Supports(r *http.Request) bool { return r.Header.Get("Upgrade") == "" && !WantsEvents(r) }

// Do implements graphql.Transport. Its statuses are those of the specification GraphQL
// over HTTP. The answer to an operation that did not run has no data, not even null.
func (HTTP) Do(w http.ResponseWriter, r *http.Request, executor graphql.GraphExecutor) {
	params, status, invalid := read(r)
	if invalid != nil {
		Refuse(w, r, status, invalid)
		return
	}
	ctx := r.Context()
	operation, refused := executor.CreateOperationContext(ctx, params)
	ctx = graphql.WithOperationContext(ctx, operation)
	if len(refused) == 0 {
		refused = unsupported(w, r, operation.Operation.Operation)
	}
	if len(refused) > 0 {
		sendRefusal(w, r, executor.DispatchError(ctx, refused).Errors)
		return
	}
	responses, ctx := executor.DispatchOperation(ctx, operation)
	response := responses(ctx)
	switch {
	case response == nil: // the client has gone and nothing ran
		Refuse(w, r, http.StatusServiceUnavailable, ctx.Err())
	case response.Data == nil:
		sendRefusal(w, r, response.Errors)
	default:
		setErrorHeaders(w.Header(), response.Errors)
		send(w, accepted(r), http.StatusOK, encode(ctx, response))
	}
}

var (
	errGetQueries   = apierror.New(failure.CodeInvalid, "A GET request can only run queries: send mutations with POST.")
	errSubscription = apierror.New(failure.CodeInvalid,
		"A subscription is a stream: open a WebSocket (graphql-transport-ws), or POST with Accept: text/event-stream.")
)

// unsupported refuses an operation of a kind that this transport, or the method of the
// request, does not carry.
func unsupported(w http.ResponseWriter, r *http.Request, kind ast.Operation) gqlerror.List {
	switch {
	case kind == ast.Subscription:
		return gqlerror.List{failure.Refusal(errSubscription)}
	case kind == ast.Mutation && r.Method == http.MethodGet:
		w.Header().Set("Allow", http.MethodPost)
		return gqlerror.List{failure.Refusal(errGetQueries)}
	}
	return nil
}

// sendRefusal answers an operation that did not run. A client that accepts
// application/json gets the status 200: for it, another status means that an
// intermediary answered.
func sendRefusal(w http.ResponseWriter, r *http.Request, errors gqlerror.List) {
	status, media := http.StatusBadRequest, accepted(r)
	switch {
	case w.Header().Get("Allow") != "":
		status = http.StatusMethodNotAllowed
	case media != mediaGraphQL:
		status = http.StatusOK
	case len(errors) > 0 && errors[0].Extensions["code"] == string(apierror.CodeRateLimited):
		status = http.StatusTooManyRequests
	}
	sendErrors(w, media, status, errors)
}

// Refuse answers a request that contains no operation to run. The code of the error may
// determine another status.
func Refuse(w http.ResponseWriter, r *http.Request, status int, err error) {
	shown := failure.Present(r.Context(), err)
	switch shown.Extensions["code"] {
	case string(apierror.CodeUnauthenticated):
		status = http.StatusUnauthorized
		w.Header().Set("WWW-Authenticate", "Bearer")
	case string(apierror.CodeUnavailable):
		status = http.StatusServiceUnavailable
	}
	if status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", "OPTIONS, GET, POST")
	}
	sendErrors(w, accepted(r), status, gqlerror.List{shown})
}

func sendErrors(w http.ResponseWriter, media string, status int, errors gqlerror.List) {
	setErrorHeaders(w.Header(), errors)
	raw, _ := marshal(map[string]gqlerror.List{"errors": errors})
	send(w, media, status, raw)
}

func send(w http.ResponseWriter, media string, status int, raw []byte) {
	w.Header().Set("Content-Type", media)
	w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
	w.WriteHeader(status)
	_, _ = w.Write(raw)
}

// encode returns the JSON of a response.
func encode(ctx context.Context, response *graphql.Response) []byte {
	raw, err := marshal(response)
	if err != nil {
		raw, _ = marshal(graphql.Response{Errors: gqlerror.List{failure.Internal(ctx, "a response cannot be encoded", "error", err)}})
	}
	return raw
}

const (
	mediaJSON    = "application/json"
	mediaGraphQL = "application/graphql-response+json"
)

// accepted returns the first supported media type in a request's Accept header.
func accepted(r *http.Request) string {
	for part := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
		switch media, _, _ := mime.ParseMediaType(part); media {
		case mediaGraphQL:
			return mediaGraphQL
		case mediaJSON, "application/*", "*/*":
			return mediaJSON
		}
	}
	return mediaJSON
}

// setErrorHeaders sets Retry-After if the first error has a time for the next try. After
// UNAVAILABLE it closes the connection, so that a load balancer can send the next
// request to another process, which may still reach PostgreSQL.
func setErrorHeaders(header http.Header, errors gqlerror.List) {
	if len(errors) == 0 {
		return
	}
	if errors[0].Extensions["code"] == string(apierror.CodeUnavailable) {
		header.Set("Connection", "close")
	}
	if seconds, ok := errors[0].Extensions["retryAfterSeconds"].(int); ok {
		header.Set("Retry-After", strconv.Itoa(seconds))
	}
}

// marshal returns the JSON of a value. Unlike json.Marshal it leaves <, > and & as they
// are, so that links can be copied from an answer with tools that do not know JSON.
func marshal(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}
