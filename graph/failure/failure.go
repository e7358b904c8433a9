// Package failure turns errors into the errors of a GraphQL response.
package failure

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/errcode"
	"github.com/google/uuid"
	"github.com/reelay/reelay/graph/scalar"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/models/postgres"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// Codes that only the GraphQL API uses.
const (
	CodeParseFailed apierror.Code = errcode.ParseFailed
	CodeInvalid     apierror.Code = errcode.ValidationFailed
	CodeTooComplex  apierror.Code = "QUERY_TOO_COMPLEX"
)

const (
	// MaxEcho bounds, in bytes, how much of a caller's own text an error repeats.
	MaxEcho = 64
	// maxMessage bounds an error's message. Some errors of gqlgen repeat a whole value.
	maxMessage = 500
)

// LoneSurrogate refuses text that cannot be represented in UTF-8.
var LoneSurrogate = apierror.Invalid("",
	`The request holds half of a character (a \ud800–\udfff escape without its other half): send the whole character.`)

// Present turns an error into what the caller reads. An *apierror.Error keeps its code
// and message, and gqlgen's own errors keep their code. Every other error becomes
// UNAVAILABLE or INTERNAL and is logged here, once.
func Present(ctx context.Context, err error) *gqlerror.Error {
	shown := present(ctx, err)
	if len(shown.Message) > maxMessage {
		shown.Message = Clip(shown.Message, maxMessage) + "…"
	}
	return shown
}

func present(ctx context.Context, err error) *gqlerror.Error {
	shown := &gqlerror.Error{Path: graphql.GetPath(ctx)}
	var located *gqlerror.Error
	if errors.As(err, &located) {
		if located.Extensions["code"] != nil {
			return nameVariable(located)
		}
		shown.Path, shown.Locations = located.Path, located.Locations
		err = cmp.Or(located.Err, err)
	}
	var wrongKind scalar.MustBe
	if errors.As(err, &wrongKind) {
		// The path begins with the field that takes the argument.
		field := ArgumentName(shown.Path[min(1, len(shown.Path)):])
		err = wrongKind.Named(field, field)
	}
	e := public(ctx, err)
	if e == nil {
		fault := Internal(ctx, "request failed", "path", shown.Path.String(), "error", err)
		shown.Message, shown.Extensions = fault.Message, fault.Extensions
		return shown
	}
	shown.Message, shown.Extensions = e.Message, extensions(e)
	return shown
}

// nameVariable makes a validation error about a variable's value name the variable.
func nameVariable(e *gqlerror.Error) *gqlerror.Error {
	if len(e.Path) > 1 && e.Path[0] == ast.PathName("variable") {
		field := Clip(dotted(e.Path[1:]), MaxEcho)
		e.Message = fmt.Sprintf("The variable $%s is not acceptable: %s.", field, e.Message)
		e.Path, e.Extensions["field"] = nil, field
	}
	return e
}

// public returns the part of an error that the caller is allowed to read, or nil if the
// error is internal.
func public(ctx context.Context, err error) *apierror.Error {
	var e *apierror.Error
	switch {
	case errors.As(err, &e) && e.Code != apierror.CodeInternal:
		return e
	case ctx.Err() != nil:
		return apierror.Later(apierror.CodeUnavailable, time.Second, "The request was cut short.")
	case postgres.IsClosedAccount(err):
		return apierror.ErrAccountClosed
	case postgres.IsOutage(err):
		slog.WarnContext(ctx, "a service cannot be reached, or is busy", "error", err)
		return apierror.Outage(postgres.IsBusy(err), postgres.Answers(err))
	}
	return nil
}

// Internal returns the error of a fault on our side, and logs its details under the request
// id that the error names.
func Internal(ctx context.Context, event string, details ...any) *gqlerror.Error {
	id := uuid.NewString()
	slog.ErrorContext(ctx, event, append(details, "request", id)...)
	shown := Refusal(apierror.Internal(id))
	shown.Path, shown.Extensions["requestId"] = graphql.GetPath(ctx), id
	return shown
}

// Refusal returns the error of an operation that is refused before it runs.
func Refusal(e *apierror.Error) *gqlerror.Error {
	return &gqlerror.Error{Message: e.Message, Extensions: extensions(e)}
}

func extensions(e *apierror.Error) map[string]any {
	shown := map[string]any{"code": string(e.Code)}
	if e.Field != "" {
		shown["field"] = e.Field
	}
	if e.RetryAfterSeconds > 0 {
		shown["retryAfterSeconds"] = e.RetryAfterSeconds
	}
	return shown
}

// ArgumentName writes the path of an argument in the form that callers know: it leaves
// out input, the name of the only argument of most mutations.
func ArgumentName(path ast.Path) string {
	if len(path) > 1 && path[0] == ast.PathName("input") {
		path = path[1:]
	}
	return dotted(path)
}

// dotted joins the parts of a path with dots.
func dotted(path ast.Path) string {
	var parts []string
	for _, part := range path {
		parts = append(parts, fmt.Sprint(part))
	}
	return strings.Join(parts, ".")
}

// FromPanic returns the error of a recovered panic. It logs the panic with its stack.
func FromPanic(ctx context.Context, p any) error {
	return Internal(ctx, "panic", "panic", p, "stack", string(debug.Stack()))
}

// Clip shortens text to at most size bytes, and never cuts a character in two.
func Clip(text string, size int) string {
	if len(text) <= size {
		return text
	}
	return string(bytes.ToValidUTF8([]byte(text[:size]), nil))
}
