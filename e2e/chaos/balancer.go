package main

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"
)

// balancer is the proxy in front of the apis, with the rules of deploy/compose/config/Caddyfile:
// requests go to an api whose /readyz is 200, and one whose connection is refused to another. No
// other request is repeated, since the first one may have been executed.
type balancer struct {
	http.Server
	address string
	apis    []*upstream
	next    http.RoundTripper
	stop    context.CancelFunc
}

// upstream is one api as its balancer sees it.
type upstream struct {
	address string
	ready   atomic.Bool
	open    atomic.Int64 // requests without an answer
	refused atomic.Int64 // when it refused a connection last, in Unix nanoseconds
}

const (
	healthEvery = time.Second
	healthLimit = 2 * time.Second
	// tryFor is how long a request looks for an api.
	tryFor   = 5 * time.Second
	tryEvery = 250 * time.Millisecond
	// failDuration is how long an api that refused a connection gets no request.
	failDuration = 2 * time.Second
)

// startBalancer listens in front of the apis. Requests that it could not forward are in its log.
func startBalancer(dir string, apis []string) (*balancer, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(dir, "balancer.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	ctx, stop := context.WithCancel(context.Background())
	transport := &http.Transport{MaxIdleConnsPerHost: 256, IdleConnTimeout: 2 * time.Minute}
	b := &balancer{address: listener.Addr().String(), next: transport, stop: stop}
	for _, address := range apis {
		b.apis = append(b.apis, &upstream{address: address})
	}
	b.Handler = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme = "http"
			r.Out.Host = r.In.Host
		},
		Transport: b, FlushInterval: -1, ErrorLog: log.New(file, "", log.LstdFlags|log.Lmicroseconds),
	}
	for _, api := range b.apis {
		go api.watch(ctx)
	}
	go func() {
		defer file.Close()
		_ = b.Serve(listener)
	}()
	return b, nil
}

// ready reports whether all apis are ready now, which watch may not have seen yet.
func (b *balancer) ready(ctx context.Context) bool {
	return !slices.ContainsFunc(b.apis, func(u *upstream) bool { return !u.isReady(ctx) })
}

func (b *balancer) close() {
	b.stop()
	_ = b.Server.Close()
}

// watch asks an api whether it is ready, until ctx ends.
func (u *upstream) watch(ctx context.Context) {
	for ; ctx.Err() == nil; sleep(ctx, healthEvery) {
		u.ready.Store(u.isReady(ctx))
	}
}

func (u *upstream) isReady(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, healthLimit)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+u.address+"/readyz", nil)
	if err != nil {
		return false
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

var errNoAPI = errors.New("no api is ready")

// RoundTrip sends a request to the api with the fewest open ones.
func (b *balancer) RoundTrip(r *http.Request) (*http.Response, error) {
	err := errNoAPI
	for limit := time.Now().Add(tryFor); ; sleep(r.Context(), tryEvery) {
		if api := b.pick(); api != nil {
			var answer *http.Response
			if answer, err = b.send(r, api); err == nil {
				return answer, nil
			}
			if dial, ok := errors.AsType[*net.OpError](err); !ok || dial.Op != "dial" {
				return nil, err
			}
			api.refused.Store(time.Now().UnixNano())
		}
		if r.Context().Err() != nil || time.Now().After(limit) {
			return nil, err
		}
	}
}

func (b *balancer) pick() *upstream {
	after := time.Now().Add(-failDuration).UnixNano()
	ready := slices.DeleteFunc(slices.Clone(b.apis), func(u *upstream) bool { return !u.ready.Load() || u.refused.Load() > after })
	if len(ready) == 0 {
		return nil
	}
	return slices.MinFunc(ready, func(x, y *upstream) int { return int(x.open.Load() - y.open.Load()) })
}

func (b *balancer) send(r *http.Request, api *upstream) (*http.Response, error) {
	out := r.Clone(r.Context())
	out.URL.Host = api.address
	if r.Body != nil {
		out.Body = &inbound{from: r.Body}
	}
	api.open.Add(1)
	defer api.open.Add(-1)
	return b.next.RoundTrip(out)
}

// inbound is the body of a request that is forwarded. It stays open if a dial fails, for the next
// one. After its end it is not read again: the server closes it when the answer begins, and
// the transport, which looks once more, would take that for a broken request.
type inbound struct {
	from io.Reader
	over bool
}

func (b *inbound) Read(p []byte) (int, error) {
	if b.over {
		return 0, io.EOF
	}
	n, err := b.from.Read(p)
	b.over = errors.Is(err, io.EOF)
	return n, err
}

func (b *inbound) Close() error { return nil }
