package graph

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"regexp"

	"github.com/99designs/gqlgen/graphql"
	"github.com/reelay/reelay/adapters/identity"
	"github.com/reelay/reelay/graph/failure"
	"github.com/reelay/reelay/graph/transport"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models/access"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// maxRegistration bounds the body of a request that has no key, in bytes.
const maxRegistration = 64 << 10

// tokenInBody finds an identity token in the JSON of a request.
var tokenInBody = regexp.MustCompile(`eyJ[\w-]+\.[\w-]+\.[\w-]+`)

// authenticate returns the holder of a key, or the machine that an identity token is about. The
// token is in place of the key, or in the body of a request without one. It is found there before
// anything is parsed, and proved compares it with the argument identityToken later.
// Only requests over HTTP come here, so no stream can outlive its token.
func (a *API) authenticate(r *http.Request, secret string) (transport.Caller, error) {
	caller := transport.Caller{Base: a.base(r)}
	if secret == "" && a.machines != nil && r.Method == http.MethodPost {
		body, err := io.ReadAll(io.LimitReader(r.Body, maxRegistration+1))
		if err == nil && len(body) <= maxRegistration && bytes.Contains(body, []byte("identityToken")) {
			secret, caller.InBody = string(tokenInBody.Find(body)), true
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	var p jobs.Principal
	var err error
	if a.machines != nil && identity.Is(secret) {
		caller.Proof = secret
		p.Role = access.RoleWorker
		p.Machine, err = a.machines(r.Context(), secret)
	} else {
		p, err = a.keys.Authenticate(r.Context(), secret)
	}
	caller.Principal = p.From(r.RemoteAddr)
	return caller, err
}

var (
	errTwoProofs = apierror.Invalid("identityToken",
		"identityToken is not the token of the Authorization header: send one of them, or the same in both.")
	errProofElsewhere = apierror.New(apierror.CodeUnauthenticated,
		"registerWorker has no identityToken with which this request is authenticated.")
	errNoToken  = apierror.New(apierror.CodeUnauthenticated, "identityToken does not have the form of an identity token.")
	errNoProofs = apierror.Invalid("identityToken",
		"This server verifies no identity of machines (REELAY_GCE_IDENTITY_PROJECTS is empty): register with an enrolment key alone.")
)

// proved returns the caller of registerWorker with the machine that it has proved to be. The
// caller of a key may send a token too, which must then be good.
func (r *Resolver) proved(ctx context.Context, token string) (jobs.Principal, error) {
	caller := transport.CallerOf(ctx)
	p := caller.Principal
	switch {
	case caller.InBody && token != caller.Proof:
		return p, errProofElsewhere
	case token == "" || token == caller.Proof:
		return p, nil
	case caller.Proof != "":
		return p, errTwoProofs
	case r.machines == nil:
		return p, errNoProofs
	case !identity.Is(token):
		return p, errNoToken
	}
	var err error
	p.Machine, err = r.machines(ctx, token)
	return p, err
}

// machinesRegister refuses everything but one registerWorker to callers without a key.
type machinesRegister struct{}

var _ interface {
	graphql.HandlerExtension
	graphql.OperationContextMutator
} = machinesRegister{}

// ExtensionName implements graphql.HandlerExtension.
func (machinesRegister) ExtensionName() string { return "MachinesRegister" }

// Validate implements graphql.HandlerExtension.
func (machinesRegister) Validate(graphql.ExecutableSchema) error { return nil }

var errOnlyRegister = apierror.Forbidden("An identity token of a machine allows one registerWorker, and nothing else: use the worker's token that it returns.")

// MutateOperationContext implements graphql.OperationContextMutator.
func (machinesRegister) MutateOperationContext(ctx context.Context, op *graphql.OperationContext) *gqlerror.Error {
	if principal(ctx).Machine == nil {
		return nil
	}
	all := op.Operation.SelectionSet
	if op.Operation.Operation == ast.Mutation && len(all) == 1 {
		if field, ok := all[0].(*ast.Field); ok && field.Name == "registerWorker" {
			return nil
		}
	}
	return failure.Refusal(errOnlyRegister)
}
