package limit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/handler/lru"
	"github.com/reelay/reelay/graph/failure"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// cachedPersisted is how many queries are kept, each of at most maxCachedQuery bytes.
const cachedPersisted = 1000

// Persisted is the extension for automatic persisted queries: a client that has sent a
// query with its SHA-256 once can send the hash alone afterwards. Each process keeps
// the queries that it received last. A client sends the text again when a process does
// not know the hash.
//
// gqlgen's own extension answers requests of the wrong shape with errors that have no
// code, and keeps queries of any length.
type Persisted struct{ queries graphql.Cache[string] }

var _ graphql.OperationParameterMutator = Persisted{}

// NewPersisted returns the extension, which knows no query yet.
func NewPersisted() Persisted { return Persisted{lru.New[string](cachedPersisted)} }

// ExtensionName implements graphql.HandlerExtension.
func (Persisted) ExtensionName() string { return "PersistedQueries" }

// Validate implements graphql.HandlerExtension.
func (Persisted) Validate(graphql.ExecutableSchema) error { return nil }

var (
	// Clients recognize the error by this message.
	errNotPersisted = apierror.New("PERSISTED_QUERY_NOT_FOUND", "PersistedQueryNotFound")
	errPersisted    = apierror.Invalid("extensions.persistedQuery",
		"extensions.persistedQuery must be {version: 1, sha256Hash}. The hash is that of the query's text, as 64 hexadecimal digits.")
	errOtherHash = apierror.Invalid("extensions.persistedQuery", "extensions.persistedQuery.sha256Hash is not the SHA-256 of this query.")
)

// MutateOperationParameters replaces a hash by the text of its query.
func (p Persisted) MutateOperationParameters(ctx context.Context, request *graphql.RawParams) *gqlerror.Error {
	extension, ok := request.Extensions["persistedQuery"]
	if !ok || extension == nil {
		return nil
	}
	object, _ := extension.(map[string]any)
	hash, _ := object["sha256Hash"].(string)
	if version, _ := object["version"].(json.Number); version != "1" || len(hash) != hex.EncodedLen(sha256.Size) {
		return failure.Refusal(errPersisted)
	}
	if request.Query == "" {
		if request.Query, ok = p.queries.Get(ctx, hash); !ok {
			return failure.Refusal(errNotPersisted)
		}
		return nil
	}
	if sum := sha256.Sum256([]byte(request.Query)); hex.EncodeToString(sum[:]) != hash {
		return failure.Refusal(errOtherHash)
	}
	if len(request.Query) <= maxCachedQuery {
		p.queries.Add(ctx, hash, request.Query)
	}
	return nil
}
