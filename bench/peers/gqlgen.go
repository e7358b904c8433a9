package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql/handler"
	"github.com/99designs/gqlgen/graphql/handler/lru"
	"github.com/99designs/gqlgen/graphql/handler/transport"
	"github.com/reelay/reelay/bench/peers/graph"
	"github.com/vektah/gqlparser/v2/ast"
)

// gqlgenServe serves bare gqlgen until it is asked to stop: a mutation that does nothing, and a
// subscription that receives an event for each POST to /publish. It prints its address.
func gqlgenServe(ctx context.Context, _ task) (figures, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	crowd := &crowd{members: map[chan *graph.JobEvent]struct{}{}}
	server := handler.New(graph.NewExecutableSchema(graph.Config{Resolvers: crowd}))
	server.AddTransport(transport.Websocket{KeepAlivePingInterval: 0, PingPongInterval: 10 * time.Second})
	server.AddTransport(transport.POST{})
	server.SetQueryCache(lru.New[*ast.QueryDocument](500))
	mux := http.NewServeMux()
	mux.Handle("/graphql", server)
	mux.HandleFunc("POST /publish", func(http.ResponseWriter, *http.Request) { crowd.publish() })
	if err := json.NewEncoder(os.Stdout).Encode(map[string]string{"address": fmt.Sprintf("http://%s", listener.Addr())}); err != nil {
		return nil, err
	}
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	defer context.AfterFunc(ctx, func() { web.Close() })()
	if err := web.Serve(listener); ctx.Err() == nil {
		return nil, err
	}
	return figures{}, nil
}

// crowd is the set of subscribers. It also implements all resolvers.
type crowd struct {
	mu      sync.Mutex
	members map[chan *graph.JobEvent]struct{}
	seq     int
}

func (c *crowd) Mutation() graph.MutationResolver         { return c }
func (c *crowd) Query() graph.QueryResolver               { return c }
func (c *crowd) Subscription() graph.SubscriptionResolver { return c }

func (c *crowd) Ok(context.Context) (bool, error) { return true, nil }

func (c *crowd) Heartbeat(context.Context, graph.HeartbeatInput) (*graph.HeartbeatPayload, error) {
	return &graph.HeartbeatPayload{
		LeaseExpiresAt: time.Now().UTC().Format(time.RFC3339Nano), Directive: &graph.Directive{Action: "CONTINUE"},
	}, nil
}

func (c *crowd) event() *graph.JobEvent {
	c.seq++
	return &graph.JobEvent{
		Seq: c.seq, Type: "PROGRESS", Payload: `{"phase":"RENDERING","percent":40,"message":""}`,
		CreatedAt: time.Now().UTC().Format(time.RFC3339Nano),
	}
}

// JobEvents is the subscription. It receives one event at once.
func (c *crowd) JobEvents(ctx context.Context, _ string, _ *int) (<-chan *graph.JobEvent, error) {
	events := make(chan *graph.JobEvent, 4)
	c.mu.Lock()
	defer c.mu.Unlock()
	first := c.event()
	first.Type = "CREATED"
	events <- first
	c.members[events] = struct{}{}
	context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.members, events)
		close(events)
	})
	return events, nil
}

func (c *crowd) publish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	event := c.event()
	for member := range c.members {
		select {
		case member <- event:
		default: // the subscriber is four events behind
		}
	}
}
