package graph

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/handler"
	"github.com/99designs/gqlgen/graphql/handler/extension"
	gqltransport "github.com/99designs/gqlgen/graphql/handler/transport"
	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/graph/failure"
	"github.com/reelay/reelay/graph/limit"
	"github.com/reelay/reelay/graph/transport"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/httpguard"
	"github.com/reelay/reelay/internal/urlkey"
	"github.com/reelay/reelay/jobs"
	"github.com/vektah/gqlparser/v2/ast"
)

// ErrRestart is the cause with which a process that stops ends the contexts of requests,
// so that streams of events end with UNAVAILABLE.
var ErrRestart = transport.ErrRestart

// Options are the settings of an API.
type Options struct {
	// Shared reports whether pages of another origin may open sockets. No page may if it
	// is nil.
	Shared func(origin string) bool
	// HideSchema turns off introspection and suggestions of names.
	HideSchema bool
	// Base returns the scheme and host at which the caller reaches this server, such as
	// https://reelay.example. Links begin with it. Links are paths if it is nil.
	Base func(*http.Request) string
	// WriteTimeout is how long a client may leave its socket unread, after the buffers in
	// between are full, before the socket is closed: 10 seconds if it is 0. Answers over
	// HTTP have the deadlines of the server.
	WriteTimeout time.Duration
	// PingEvery is the time between the pings that keep proxies from closing a silent
	// stream of events: 10 seconds if it is 0.
	PingEvery time.Duration
	// Machines verifies the identity token of a machine, which may then register a worker without
	// a key. No machine may if it is nil.
	Machines func(ctx context.Context, token string) (*jobs.Machine, error)
	// Large has the places of requests of more than [httpguard.SmallBody]. They are refused if
	// it is nil.
	Large *httpguard.LargeBodies
	// BatchWait is how long a batch of keys is collected: loader.Wait if it is 0.
	BatchWait time.Duration
}

const (
	// pingEvery and writeTimeout are the defaults of [Options].
	pingEvery    = 10 * time.Second
	writeTimeout = 10 * time.Second
)

// API serves the GraphQL API: over HTTP (POST, and GET for queries), server-sent events
// and graphql-transport-ws sockets. Nothing runs for a caller without a valid key: HTTP
// answers 401, and a socket closes with 4401. A stream ends when its key is revoked or
// expires.
type API struct {
	server   http.Handler
	sockets  *transport.Sockets
	keys     *auth.KeyWatch
	large    *httpguard.LargeBodies
	machines func(ctx context.Context, token string) (*jobs.Machine, error)
	base     func(*http.Request) string
}

// New returns the API.
func New(resolver *Resolver, keys *auth.KeyWatch, options Options) *API {
	base := options.Base
	if base == nil {
		base = func(*http.Request) string { return "" }
	}
	sockets := &transport.Sockets{
		Keys: keys, AllowsOrigin: options.Shared, Base: base, WriteTimeout: cmp.Or(options.WriteTimeout, writeTimeout),
	}
	resolver.machines = options.Machines
	schema := NewExecutableSchema(Config{
		Schema:     servedSchema(),
		Resolvers:  resolver,
		Directives: DirectiveRoot{Auth: authorize},
	})
	server := handler.New(schema)
	server.AddTransport(sockets)
	server.AddTransport(transport.Events{Keys: keys, PingEvery: cmp.Or(options.PingEvery, pingEvery)})
	server.AddTransport(gqltransport.Options{})
	server.AddTransport(transport.HTTP{})
	server.SetParserTokenLimit(limit.MaxTokens)
	queries := limit.NewCache()
	server.SetQueryCache(queries)
	server.SetErrorPresenter(failure.Present)
	server.SetRecoverFunc(failure.FromPanic)
	if options.HideSchema {
		server.SetDisableSuggestion(true)
		server.AroundResponses(withoutSuggestions)
	} else {
		server.Use(extension.Introspection{})
	}
	server.Use(limit.NewPersisted())
	server.Use(machinesRegister{})
	server.Use(limit.Queries{Validated: queries, Schema: schema.Schema()})
	server.AroundResponses(resolver.respond(options.BatchWait))
	server.AroundFields(writeApart)
	server.AroundFields(showField)
	return &API{server, sockets, keys, options.Large, options.Machines, base}
}

// Close closes every socket with 1012, so that its client connects to another process,
// and refuses new ones. It returns once all are closed, or ctx's error if ctx ends first.
// Streams of events end with the contexts of their requests, see [ErrRestart].
func (a *API) Close(ctx context.Context) error { return a.sockets.Close(ctx) }

// servedSchema is the schema without @defer, which the parser adds: every answer is
// complete.
func servedSchema() *ast.Schema {
	schema := *NewExecutableSchema(Config{}).Schema()
	schema.Directives = maps.Clone(schema.Directives)
	delete(schema.Directives, "defer")
	return &schema
}

var (
	errKeyInURL = apierror.Invalid("", "%s", urlkey.Refusal)
	errTwoKeys  = apierror.Invalid("", "The request has the header Authorization twice: send it once.")
)

// ServeHTTP implements http.Handler. It authenticates the caller of every request but a
// WebSocket's, which sends its key in its first message.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if urlkey.IsIn(r.URL.Query()) {
		transport.Refuse(w, r, http.StatusBadRequest, errKeyInURL)
		return
	}
	if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		a.server.ServeHTTP(w, r)
		return
	}
	r.Header.Del("Upgrade") // an offer of HTTP/2, which a server may ignore
	large := a.large != nil && r.ContentLength > httpguard.SmallBody && !transport.WantsEvents(r)
	if large {
		r.Body = http.MaxBytesReader(w, r.Body, httpguard.LargeBody)
	} else {
		r.Body = http.MaxBytesReader(w, r.Body, httpguard.SmallBody)
	}
	if r.Method == http.MethodOptions {
		a.server.ServeHTTP(w, r)
		return
	}
	keys := r.Header.Values("Authorization")
	if len(keys) > 1 {
		transport.Refuse(w, r, http.StatusBadRequest, errTwoKeys)
		return
	}
	caller, err := a.authenticate(r, transport.Bearer(strings.Join(keys, "")))
	if err != nil {
		transport.Refuse(w, r, http.StatusInternalServerError, err)
		return
	}
	httpguard.ConnOf(r.Context()).MarkKnown()
	if large {
		leave, ok := a.large.Enter(r.Context(), string(caller.Principal.AccountID))
		if !ok {
			transport.Refuse(w, r, http.StatusServiceUnavailable, apierror.ErrBusy)
			return
		}
		defer leave()
	}
	a.server.ServeHTTP(w, r.WithContext(transport.WithCaller(r.Context(), caller)))
}

// withoutSuggestions removes suggested names from errors. Some rules of the validator
// make them even if suggestions are turned off.
func withoutSuggestions(ctx context.Context, next graphql.ResponseHandler) *graphql.Response {
	response := next(ctx)
	if response != nil && response.Data == nil {
		for _, e := range response.Errors {
			e.Message, _, _ = strings.Cut(e.Message, " Did you mean")
		}
	}
	return response
}
