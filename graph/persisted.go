package graph

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/99designs/gqlgen/graphql"
	"github.com/reelay/reelay/jobs/apierror"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// persisted lets clients send a query's SHA-256 in place of its text, once they
// have sent both (automatic persisted queries). Each process keeps those that it
// was sent last: who is told that a query is not known sends it again.
type persisted struct{ queries graphql.Cache[string] }

var _ graphql.OperationParameterMutator = persisted{}

func (persisted) ExtensionName() string                   { return "PersistedQueries" }
func (persisted) Validate(graphql.ExecutableSchema) error { return nil }

// cachedPersisted queries of up to maxCachedQuery bytes are kept.
const cachedPersisted = 1000

// persistedQuery is where a request has the hash.
const persistedQuery = "persistedQuery"

var (
	// The message is what clients look for.
	errNotPersisted = &apierror.Error{Code: "PERSISTED_QUERY_NOT_FOUND", Message: "PersistedQueryNotFound"}
	errPersisted    = &apierror.Error{
		Code: apierror.CodeInvalidInput, Field: "extensions.persistedQuery",
		Message: "extensions.persistedQuery must be {version: 1, sha256Hash}, the hash that of the query's text in 64 hexadecimal digits.",
	}
	errOtherHash = &apierror.Error{
		Code: apierror.CodeInvalidInput, Field: "extensions.persistedQuery",
		Message: "extensions.persistedQuery.sha256Hash is not the SHA-256 of this query.",
	}
)

// MutateOperationParameters puts the text in the place of its hash.
func (p persisted) MutateOperationParameters(ctx context.Context, request *graphql.RawParams) *gqlerror.Error {
	said, ok := request.Extensions[persistedQuery]
	if !ok || said == nil {
		return nil
	}
	object, _ := said.(map[string]any)
	hash, _ := object["sha256Hash"].(string)
	if version, _ := object["version"].(json.Number); version != "1" || len(hash) != hex.EncodedLen(sha256.Size) {
		return refusal(errPersisted)
	}
	if request.Query == "" {
		if request.Query, ok = p.queries.Get(ctx, hash); !ok {
			return refusal(errNotPersisted)
		}
		return nil
	}
	if sum := sha256.Sum256([]byte(request.Query)); hex.EncodeToString(sum[:]) != hash {
		return refusal(errOtherHash)
	}
	if len(request.Query) <= maxCachedQuery {
		p.queries.Add(ctx, hash, request.Query)
	}
	return nil
}
