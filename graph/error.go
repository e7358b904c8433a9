package graph

import (
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
	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/models"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// Codes that only the API has.
const (
	codeParseFailed apierror.Code = errcode.ParseFailed
	codeInvalid     apierror.Code = errcode.ValidationFailed
	codeTooComplex  apierror.Code = "QUERY_TOO_COMPLEX"
)

// maxErrorText bounds an error's message. Some of those of gqlgen repeat a value whole.
const maxErrorText = 500

// present turns an error into what the caller reads: *apierror.Error as it stands,
// gqlgen's own with their code, and everything else, logged here once, as
// UNAVAILABLE or INTERNAL.
func present(ctx context.Context, err error) *gqlerror.Error {
	shown := presented(ctx, err)
	if len(shown.Message) > maxErrorText {
		shown.Message = clip(shown.Message, maxErrorText) + "…"
	}
	return shown
}

func presented(ctx context.Context, err error) *gqlerror.Error {
	shown := &gqlerror.Error{Path: graphql.GetPath(ctx)}
	var located *gqlerror.Error
	if errors.As(err, &located) {
		if located.Extensions["code"] != nil {
			return named(located)
		}
		shown.Path, shown.Locations = located.Path, located.Locations
		err = cmp.Or(located.Err, err)
	}
	var wanted mustBe
	if errors.As(err, &wanted) {
		field := argument(shown.Path)
		err = wanted.named(field, field)
	}
	e := public(ctx, err)
	shown.Message, shown.Extensions = e.Message, extensions(e)
	if e.Code == apierror.CodeInternal {
		id := uuid.NewString()
		shown.Extensions["requestId"] = id
		slog.ErrorContext(ctx, "request failed", "request", id, "path", shown.Path.String(), "error", err)
	}
	return shown
}

// named has an error of validation name the variable that its path leads to.
func named(e *gqlerror.Error) *gqlerror.Error {
	if len(e.Path) > 1 && e.Path[0] == ast.PathName("variable") {
		field := clip(dotted(e.Path[1:]), maxShown)
		e.Message = fmt.Sprintf("The variable $%s is not acceptable: %s.", field, e.Message)
		e.Path, e.Extensions["field"] = nil, field
	}
	return e
}

// public is what a caller may know of an error.
func public(ctx context.Context, err error) *apierror.Error {
	var e *apierror.Error
	switch {
	case errors.As(err, &e):
		return e
	case ctx.Err() != nil:
		return apierror.Later(apierror.CodeUnavailable, time.Second, "The request was cut short.")
	case models.IsOutage(err):
		slog.WarnContext(ctx, "a service cannot be reached", "error", err)
		return apierror.ErrUnavailable
	}
	return errInternal
}

var errInternal = &apierror.Error{Code: apierror.CodeInternal, Message: "Something went wrong on our side. The request id finds it in the server's log."}

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

// argument names the argument that a path leads to. What comes before it is the
// field that takes it, and input, which every mutation's argument is called.
func argument(path ast.Path) string {
	return withoutInput(path[min(1, len(path)):])
}

// withoutInput writes the path of an argument as callers know it.
func withoutInput(path ast.Path) string {
	if len(path) > 1 && path[0] == ast.PathName("input") {
		path = path[1:]
	}
	return dotted(path)
}

// dotted writes a path with dots between its parts.
func dotted(path ast.Path) string {
	var parts []string
	for _, part := range path {
		parts = append(parts, fmt.Sprint(part))
	}
	return strings.Join(parts, ".")
}

// recovered is the error of a panic, which is logged with its stack.
func recovered(ctx context.Context, p any) error {
	id := uuid.NewString()
	slog.ErrorContext(ctx, "panic", "request", id, "panic", p, "stack", string(debug.Stack()))
	e := public(ctx, errors.New("panic"))
	return &gqlerror.Error{
		Message: e.Message, Path: graphql.GetPath(ctx),
		Extensions: map[string]any{"code": string(apierror.CodeInternal), "requestId": id},
	}
}
