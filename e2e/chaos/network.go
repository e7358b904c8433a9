package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"

	"github.com/reelay/reelay/internal/faultproxy"
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

// network has a proxy for each way. A pair can have several ways.
type network struct {
	ways    map[pair][]*way
	proxies []*faultproxy.Proxy
}

// way is one proxy. It has at most one toxic at a time.
type way struct {
	pair  pair
	name  string
	proxy *faultproxy.Proxy
	busy  atomic.Bool
}

func newNetwork() *network { return &network{ways: map[pair][]*way{}} }

// open creates a way to upstream and returns the address to connect to.
func (n *network) open(p pair, upstream string) (string, error) {
	name := fmt.Sprintf("%s %d", p, len(n.ways[p]))
	proxy, err := n.forward(func() (net.Conn, error) { return net.Dial("tcp", upstream) })
	if err != nil {
		return "", fmt.Errorf("open the way %s: %w", name, err)
	}
	n.ways[p] = append(n.ways[p], &way{pair: p, name: name, proxy: proxy})
	return proxy.Addr(), nil
}

// forward opens a proxy without faults to what dial returns: a Unix socket, or one of several servers.
func (n *network) forward(dial func() (net.Conn, error)) (*faultproxy.Proxy, error) {
	proxy, err := faultproxy.Open(dial)
	if err == nil {
		n.proxies = append(n.proxies, proxy)
	}
	return proxy, err
}

func (n *network) close() {
	for _, p := range n.proxies {
		p.Close()
	}
}

// A toxic is one kind of network failure.
type toxic struct {
	name string
	// fault is nil if the way is cut: open connections break, and so does every new one.
	fault *faultproxy.Fault
}

var toxics = []toxic{
	{"cut", nil},
	{"latency", &faultproxy.Fault{Delay: 250 * time.Millisecond, Jitter: 200 * time.Millisecond}},
	{"slow close", &faultproxy.Fault{SlowClose: 1500 * time.Millisecond}},
	{"one-way hang", &faultproxy.Fault{Hold: true}},
	{"reset", &faultproxy.Fault{Share: 0.5, Reset: true}},
	{"cut short", &faultproxy.Fault{Share: 0.5, Limit: 700}},
}

// suffer applies a toxic for a while. It returns false if the way already has one.
func (w *way) suffer(ctx context.Context, t toxic, lasting time.Duration) bool {
	if !w.busy.CompareAndSwap(false, true) {
		return false
	}
	defer w.busy.Store(false)
	if t.fault == nil {
		w.proxy.Cut()
	} else {
		w.proxy.Disturb(*t.fault)
	}
	sleep(ctx, lasting)
	w.proxy.Heal()
	return true
}

// pick returns one of the ways of a pair.
func (n *network) pick(random *rand.Rand, p pair) *way {
	ways := n.ways[p]
	return ways[random.IntN(len(ways))]
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
