package graph

import (
	"cmp"
	"context"
	"maps"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/handler"
	"github.com/99designs/gqlgen/graphql/handler/extension"
	"github.com/99designs/gqlgen/graphql/handler/lru"
	"github.com/99designs/gqlgen/graphql/handler/transport"
	"github.com/reelay/reelay/internal/httpguard"
	"github.com/reelay/reelay/internal/urlkey"
	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/jobs/auth"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// Options are what a place that serves the API may change.
type Options struct {
	// Shared tells whether pages of another origin may open sockets; nil is of none.
	Shared func(origin string) bool
	// HideSchema answers no introspection, and does not guess which field was
	// meant.
	HideSchema bool
	// Base returns the scheme and host at which the caller reaches this server, such
	// as https://reelay.example: links are made with it. Without it they are paths.
	Base func(*http.Request) string
	// WriteTimeout is how long the other side of a socket may leave it unread, with the
	// buffers in between full, before it is closed: 10 seconds if it is 0. Answers over HTTP
	// have the deadlines of the server.
	WriteTimeout time.Duration
	// PingEvery keeps proxies from closing a silent stream: 10 seconds if it is 0.
	PingEvery time.Duration
}

const (
	// pingEvery and writeTimeout are those of [Options].
	pingEvery    = 10 * time.Second
	writeTimeout = 10 * time.Second
	// Only small queries are cached, and not too many: a caller's text must not
	// fill the memory.
	cachedQueries  = 500
	maxCachedQuery = 16 << 10
)

// API serves the GraphQL API: over HTTP (POST, and GET for queries), server-sent
// events and graphql-transport-ws sockets. Nothing runs for a caller whose key is
// not valid: HTTP answers 401, a socket closes with 4401. The key of a stream is
// watched; once it is not valid any more the stream ends.
type API struct {
	inside       http.Handler
	keys         *auth.KeyWatch
	shared       func(origin string) bool
	base         func(*http.Request) string
	writeTimeout time.Duration
	pingEvery    time.Duration
	sockets      sockets
}

// New returns the API.
func New(resolver *Resolver, keys *auth.KeyWatch, options Options) *API {
	if options.Base == nil {
		options.Base = func(*http.Request) string { return "" }
	}
	api := &API{
		keys: keys, shared: options.Shared, base: options.Base,
		writeTimeout: cmp.Or(options.WriteTimeout, writeTimeout), pingEvery: cmp.Or(options.PingEvery, pingEvery),
	}
	schema := NewExecutableSchema(Config{
		Schema:     servedSchema(),
		Resolvers:  resolver,
		Directives: DirectiveRoot{Auth: authorize},
	})
	server := handler.New(schema)
	server.AddTransport(events{api.pingEvery})
	server.AddTransport(transport.Options{})
	server.AddTransport(single{})
	server.AddTransport(socketTransport{api})
	server.SetParserTokenLimit(maxTokens)
	queries := queryCache{lru.New[*ast.QueryDocument](cachedQueries)}
	server.SetQueryCache(queries)
	server.SetErrorPresenter(present)
	server.SetRecoverFunc(recovered)
	if options.HideSchema {
		server.SetDisableSuggestion(true)
		server.AroundResponses(withoutGuesses)
	} else {
		server.Use(extension.Introspection{})
	}
	server.Use(persisted{lru.New[string](cachedPersisted)})
	server.Use(limits{queries, variables{schema.Schema()}})
	server.AroundOperations(openStream)
	server.AroundResponses(resolver.respond)
	server.AroundFields(writeApart)
	server.AroundFields(countField)
	server.AroundFields(showField)
	api.inside = server
	return api
}

// servedSchema is the schema without @defer, which the parser brings along: an answer is
// whole.
func servedSchema() *ast.Schema {
	schema := *NewExecutableSchema(Config{}).Schema()
	schema.Directives = maps.Clone(schema.Directives)
	delete(schema.Directives, "defer")
	return &schema
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if urlkey.IsIn(r.URL.Query()) {
		refuse(w, r, http.StatusBadRequest, errKeyInURL)
		return
	}
	if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		a.serveSocket(w, r)
		return
	}
	r.Header.Del("Upgrade") // an offer of HTTP/2, which nobody has to take
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if r.Method == http.MethodOptions {
		a.inside.ServeHTTP(w, r)
		return
	}
	keys := r.Header.Values("Authorization")
	if len(keys) > 1 {
		refuse(w, r, http.StatusBadRequest, errTwoKeys)
		return
	}
	key := bearer(strings.Join(keys, ""))
	p, err := a.keys.Authenticate(r.Context(), key)
	if err != nil {
		refuse(w, r, http.StatusInternalServerError, err)
		return
	}
	httpguard.ConnOf(r.Context()).MarkKnown()
	params, status, refused := read(r)
	if refused != nil {
		refuse(w, r, status, refused)
		return
	}
	asks := &asked{params: params, method: r.Method}
	ctx := withBase(withPrincipal(r.Context(), p.From(r.RemoteAddr)), a.base(r))
	ctx = context.WithValue(ctx, askedKey{}, asks)
	if r.Method == http.MethodPost && strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		asks.streams = true
		while, end, err := a.keys.While(ctx, key)
		if err != nil {
			refuse(w, r, http.StatusTooManyRequests, err)
			return
		}
		defer end(nil)
		ctx = while
	}
	a.inside.ServeHTTP(w, r.WithContext(ctx))
}

// refuse answers a request that nothing ran for. The error's code may know a
// better status.
func refuse(w http.ResponseWriter, r *http.Request, status int, err error) {
	shown := present(r.Context(), err)
	switch shown.Extensions["code"] {
	case string(apierror.CodeUnauthenticated):
		status = http.StatusUnauthorized
		w.Header().Set("WWW-Authenticate", "Bearer")
	case string(apierror.CodeUnavailable):
		status = http.StatusServiceUnavailable
	}
	retryAfter(w.Header(), gqlerror.List{shown})
	if status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", "OPTIONS, GET, POST")
	}
	w.Header().Set("Content-Type", accepted(r))
	sendErrors(w, status, gqlerror.List{shown})
}

const (
	mediaJSON    = "application/json"
	mediaGraphQL = "application/graphql-response+json"
)

// accepted is the media type of ours that a request's Accept puts first.
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

// retryAfter says in an answer's header when to ask again, if its first error knows. After
// UNAVAILABLE it closes the connection: a load balancer may lead the next one to another
// process, which PostgreSQL answers.
func retryAfter(header http.Header, shown gqlerror.List) {
	if len(shown) == 0 {
		return
	}
	if shown[0].Extensions["code"] == string(apierror.CodeUnavailable) {
		header.Set("Connection", "close")
	}
	if seconds, ok := shown[0].Extensions["retryAfterSeconds"].(int); ok {
		header.Set("Retry-After", strconv.Itoa(seconds))
	}
}

// withoutGuesses leaves out which name of the schema may have been meant, which
// not all of the validator's rules can be told.
func withoutGuesses(ctx context.Context, next graphql.ResponseHandler) *graphql.Response {
	response := next(ctx)
	if response != nil && response.Data == nil {
		for _, e := range response.Errors {
			e.Message, _, _ = strings.Cut(e.Message, " Did you mean")
		}
	}
	return response
}

// queryCache keeps parsed queries, but for long ones, whose text is often data.
type queryCache struct {
	graphql.Cache[*ast.QueryDocument]
}

// Add implements graphql.Cache.
func (c queryCache) Add(ctx context.Context, query string, doc *ast.QueryDocument) {
	if len(query) <= maxCachedQuery {
		c.Cache.Add(ctx, query, doc)
	}
}
