package fakes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/reelay/reelay/gpu/runtimes/remote/fakeprovider"
	"github.com/reelay/reelay/internal/engine"
	"github.com/reelay/reelay/internal/provider"
)

const (
	// key is accepted by all fakes.
	key = "key-of-a-fake"
	// A job at a fake takes steps steps, one every stepTime.
	steps    = 12
	stepTime = time.Second
)

// Fakes are running fakes of hosted providers. A nil *Fakes has none.
type Fakes struct {
	// Secrets is the file of their keys, for --engine-secrets of an agent.
	Secrets string

	names   []string
	urls    map[string]string // by the name of the provider
	servers []*http.Server
	stop    context.CancelFunc
}

// Names returns the providers that --fake-providers names; all stands for all of them.
func Names(given []string) ([]string, error) {
	if slices.Contains(given, "all") {
		given = nil
		for _, a := range provider.All {
			given = append(given, a.Name)
		}
	}
	for _, name := range given {
		if provider.Find(name) == nil {
			return nil, fmt.Errorf("--fake-providers names %.40q: it must be of %s", name, engine.List())
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(given))), nil
}

// Start starts the fakes of these providers on free ports of loopback, and writes the file of their keys
// into the folder. Without names it returns nil.
func Start(names []string, folder string) (*Fakes, error) {
	if len(names) == 0 {
		return nil, nil
	}
	ctx, stop := context.WithCancel(context.Background())
	f := &Fakes{names: names, urls: map[string]string{}, stop: stop, Secrets: filepath.Join(folder, "fake-providers.json")}
	films := &films{}
	var entries []map[string]any
	for _, name := range names {
		if err := f.serve(ctx, name, films); err != nil {
			return nil, errors.Join(fmt.Errorf("start the fake of %s: %w", name, err), f.Close())
		}
		headers := map[string]string{}
		sent := provider.Find(name).Auth.Header(key)
		for header := range sent {
			headers[header] = sent.Get(header)
		}
		entries = append(entries, map[string]any{"url": f.urls[name], "headers": headers})
	}
	text, err := json.Marshal(map[string]any{"engines": entries})
	if err == nil {
		err = os.WriteFile(f.Secrets, text, 0o600)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("write the keys of the fakes: %w", err), f.Close())
	}
	return f, nil
}

// serve serves the fake of a provider, and has its jobs advance until ctx ends.
func (f *Fakes) serve(ctx context.Context, name string, films *films) error {
	fake, err := fakeprovider.New(fakeprovider.Config{
		Provider: name, Concurrent: provider.Find(name).Concurrent, Key: key, Steps: steps,
		Film: func(t fakeprovider.Task) ([]byte, error) {
			return films.of(provider.Find(name).ReadAsked(t.Model, []byte(t.Body.Raw)))
		},
	})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: fake, ReadHeaderTimeout: 10 * time.Second}
	f.servers = append(f.servers, server)
	f.urls[name] = "http://" + listener.Addr().String() + setups[name].path
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			slog.Error("the fake of a provider ended", "provider", name, "error", err)
		}
	}()
	go func() {
		clock := time.NewTicker(stepTime)
		defer clock.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-clock.C:
				fake.Step()
			}
		}
	}()
	return nil
}

// Close ends the fakes.
func (f *Fakes) Close() error {
	if f == nil {
		return nil
	}
	f.stop()
	var failed []error
	for _, server := range f.servers {
		failed = append(failed, server.Close())
	}
	return errors.Join(failed...)
}
