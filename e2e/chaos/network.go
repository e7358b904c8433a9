package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// A pair is a connection between two kinds of processes on which the network can fail.
type pair string

const (
	clientsAPI    pair = "client–api"
	agentsAPI     pair = "agent–api"
	agentsObjects pair = "agent–objects"
	apiPostgres   pair = "api–postgres"
	apiRedis      pair = "api–redis"
	apiObjects    pair = "api–objects"
	controlPG     pair = "control–postgres"
	controlRedis  pair = "control–redis"
)

var pairs = []pair{clientsAPI, agentsAPI, agentsObjects, apiPostgres, apiRedis, apiObjects, controlPG, controlRedis}

// network has a toxiproxy for each way. A pair can have several ways.
type network struct {
	server *toxiproxy.ApiServer
	ways   map[pair][]*way
	closed []io.Closer
}

// way is one proxy. It has at most one toxic at a time.
type way struct {
	pair  pair
	proxy *toxiproxy.Proxy
	busy  atomic.Bool
}

func newNetwork() *network {
	return &network{
		server: toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()),
		ways:   map[pair][]*way{},
	}
}

// open creates a way to upstream and returns the address to connect to.
func (n *network) open(p pair, upstream string) (string, error) {
	name := fmt.Sprintf("%s %d", p, len(n.ways[p]))
	proxy := toxiproxy.NewProxy(n.server, name, "127.0.0.1:0", upstream)
	if err := proxy.Start(); err != nil {
		return "", fmt.Errorf("open the way %s: %w", name, err)
	}
	n.ways[p] = append(n.ways[p], &way{pair: p, proxy: proxy})
	return proxy.Listen, nil
}

func (n *network) close() {
	for _, ways := range n.ways {
		for _, w := range ways {
			w.proxy.Stop()
		}
	}
	for _, c := range n.closed {
		c.Close()
	}
}

// A toxic is one kind of network failure.
type toxic struct {
	name string
	// json is the toxic for toxiproxy. If it is empty, the way is cut: open connections
	// break, and new ones are refused.
	json string
}

var toxics = []toxic{
	{"cut", ""},
	{"latency", `{"name":"t","type":"latency","attributes":{"latency":250,"jitter":200}}`},
	{"slow close", `{"name":"t","type":"slow_close","attributes":{"delay":1500}}`},
	{"one-way hang", `{"name":"t","type":"timeout","stream":"downstream","attributes":{"timeout":0}}`},
	{"reset", `{"name":"t","type":"reset_peer","stream":"downstream","toxicity":0.5,"attributes":{"timeout":0}}`},
	{"cut short", `{"name":"t","type":"limit_data","stream":"downstream","toxicity":0.5,"attributes":{"bytes":700}}`},
}

// suffer applies a toxic for a while. It returns false if the way already has one.
func (w *way) suffer(ctx context.Context, t toxic, lasting time.Duration) bool {
	if !w.busy.CompareAndSwap(false, true) {
		return false
	}
	defer w.busy.Store(false)
	if t.json == "" {
		w.proxy.Stop()
		sleep(ctx, lasting)
		w.reopen()
		return true
	}
	if _, err := w.proxy.Toxics.AddToxicJson(strings.NewReader(t.json)); err != nil {
		panic(fmt.Sprintf("toxic %s: %v", t.name, err)) // all toxics are constants
	}
	sleep(ctx, lasting)
	_ = w.proxy.Toxics.RemoveToxic(context.WithoutCancel(ctx), "t") // cannot fail: it exists
	return true
}

// reopen listens again on the address of the way, which its clients know.
func (w *way) reopen() {
	for w.proxy.Start() != nil {
		time.Sleep(20 * time.Millisecond) // an outgoing connection uses this port
	}
}

// pick returns one of the ways of a pair.
func (n *network) pick(random *rand.Rand, p pair) *way {
	ways := n.ways[p]
	return ways[random.IntN(len(ways))]
}

// forward listens on a TCP address and forwards connections to the result of dial: a Unix
// socket, or one of several servers.
func (n *network) forward(dial func() (net.Conn, error)) (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	n.closed = append(n.closed, listener)
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				to, err := dial()
				if err != nil {
					from.Close()
					return
				}
				splice(from, to)
			}()
		}
	}()
	return listener.Addr().String(), nil
}

// splice copies in both directions until either end closes.
func splice(a, b net.Conn) {
	var once sync.Once
	end := func() { a.Close(); b.Close() }
	go func() { _, _ = io.Copy(a, b); once.Do(end) }()
	_, _ = io.Copy(b, a)
	once.Do(end)
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
