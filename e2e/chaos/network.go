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

// A pair is one way between two kinds of processes, on which the network may
// fail.
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

// network is a toxiproxy for each way, some for the same pair.
type network struct {
	server *toxiproxy.ApiServer
	ways   map[pair][]*way
	closed []io.Closer
}

// way is one proxy. At most one thing is wrong with it at a time.
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

// open makes a way to upstream and returns the address at which it begins.
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

// A toxic is one thing that can be wrong with a way.
type toxic struct {
	name string
	// json is what toxiproxy adds; empty cuts the way: what is open breaks, and
	// nothing new is let in.
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

// suffer applies a toxic for so long. It returns false if something is wrong with
// the way already.
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
		panic(fmt.Sprintf("toxic %s: %v", t.name, err)) // they are all ours
	}
	sleep(ctx, lasting)
	_ = w.proxy.Toxics.RemoveToxic(context.WithoutCancel(ctx), "t") // it is there
	return true
}

// reopen lets a way begin where it began before: its clients know no other place.
func (w *way) reopen() {
	for w.proxy.Start() != nil {
		time.Sleep(20 * time.Millisecond) // somebody dialled out from just this port
	}
}

// pick returns one of the ways of a pair.
func (n *network) pick(random *rand.Rand, p pair) *way {
	ways := n.ways[p]
	return ways[random.IntN(len(ways))]
}

// forward serves a TCP address that leads to whatever dial reaches: a Unix
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

// splice copies both ways until either end is gone.
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
