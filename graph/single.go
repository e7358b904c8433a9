package graph

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/99designs/gqlgen/graphql"
	"github.com/reelay/reelay/jobs/apierror"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// single answers one operation once: sent by POST, or by GET if it is a query. gqlgen's
// own would read the request, and write the answer, once more.
type single struct{}

var _ graphql.Transport = single{}

type askedKey struct{}

// asked is a request. Its answer is a single one, or a stream.
type asked struct {
	params   *graphql.RawParams
	method   string
	streams  bool
	notByGet bool // that is why it is refused
}

// Supports implements graphql.Transport.
func (single) Supports(r *http.Request) bool {
	a, ok := r.Context().Value(askedKey{}).(*asked)
	return ok && !a.streams
}

// Do implements graphql.Transport. Its status is the one that GraphQL over HTTP has for
// an answer, in which there is no data of an operation that did not run, not even null.
func (single) Do(w http.ResponseWriter, r *http.Request, executor graphql.GraphExecutor) {
	ctx := r.Context()
	a, _ := ctx.Value(askedKey{}).(*asked)
	now := graphql.Now()
	a.params.ReadTime = graphql.TraceTiming{Start: now, End: now}
	media := accepted(r)
	w.Header().Set("Content-Type", media)
	operation, refused := executor.CreateOperationContext(ctx, a.params)
	if refused != nil {
		told := executor.DispatchError(graphql.WithOperationContext(ctx, operation), refused)
		retryAfter(w.Header(), told.Errors)
		sendErrors(w, a.refusalStatus(w.Header(), media, told.Errors), told.Errors)
		return
	}
	responses, ctx := executor.DispatchOperation(ctx, operation)
	answer := responses(ctx)
	if answer == nil { // its client seems to be gone, and nothing ran
		refuse(w, r, http.StatusServiceUnavailable, ctx.Err())
		return
	}
	retryAfter(w.Header(), answer.Errors)
	if answer.Data == nil { // nothing ran
		sendErrors(w, a.refusalStatus(w.Header(), media, answer.Errors), answer.Errors)
		return
	}
	send(w, http.StatusOK, encode(answer))
}

// sendErrors sends the answer of what did not run.
func sendErrors(w http.ResponseWriter, status int, all gqlerror.List) {
	raw, _ := json.Marshal(map[string]gqlerror.List{"errors": all})
	send(w, status, raw)
}

// send sends an answer.
func send(w http.ResponseWriter, status int, raw []byte) {
	w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
	w.WriteHeader(status)
	_, _ = w.Write(raw)
}

// refusalStatus is that of an operation that did not run. A client that asked for
// application/json is told of it with 200: for it, another status means that something
// in between has answered.
func (a *asked) refusalStatus(header http.Header, media string, refused gqlerror.List) int {
	switch {
	case a.notByGet:
		header.Set("Allow", http.MethodPost)
		return http.StatusMethodNotAllowed
	case media != mediaGraphQL:
		return http.StatusOK
	case len(refused) > 0 && refused[0].Extensions["code"] == string(apierror.CodeRateLimited):
		return http.StatusTooManyRequests
	}
	return http.StatusBadRequest
}

var (
	errGetQueries   = &apierror.Error{Code: codeInvalid, Message: "A GET request can only ask queries: send mutations with POST."}
	errSubscription = &apierror.Error{
		Code:    codeInvalid,
		Message: "A subscription is a stream: open a WebSocket (graphql-transport-ws), or POST with Accept: text/event-stream.",
	}
)

// transported refuses an operation over a transport that does not take its kind.
// Streams take all of them.
func transported(ctx context.Context, kind ast.Operation) *apierror.Error {
	a, ok := ctx.Value(askedKey{}).(*asked)
	switch {
	case !ok || a.streams || kind == ast.Query:
		return nil
	case kind == ast.Subscription:
		return errSubscription
	case a.method == http.MethodGet:
		a.notByGet = true
		return errGetQueries
	}
	return nil
}
