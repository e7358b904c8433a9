package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/url"

	"github.com/reelay/reelay/bench/procfs"
	"github.com/reelay/reelay/bench/wire"
)

// gqlgenServer is a bare gqlgen server without a database.
type gqlgenServer struct {
	endpoint *url.URL
	process  procfs.Process
}

// startGqlgen starts a server for the duration of the measurement.
func (s *Site) startGqlgen(ctx context.Context) (*gqlgenServer, error) {
	r, err := s.makePeer(ctx, "gqlgen")
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	cmd := r.command(running, "gqlgen", "serve")
	s.later(func(context.Context) error {
		stop()
		_ = cmd.Wait() // always an error, since it was killed
		return nil
	})
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("it did not start: %w", err)
	}
	var told struct{ Address string }
	if err := json.Unmarshal(line, &told); err != nil {
		return nil, err
	}
	endpoint, err := url.Parse(told.Address)
	return &gqlgenServer{endpoint, procfs.Process(cmd.Process.Pid)}, err
}

// bareGqlgen adds a contestant that sends heartbeats to a gqlgen that ignores them.
func (s *Site) bareGqlgen(ctx context.Context, all []Contestant) ([]Contestant, error) {
	server, err := s.startGqlgen(ctx)
	if err != nil {
		s.Lacks("gqlgen", err)
		return all, nil
	}
	b, err := newBody(heartbeatQuery, map[string]any{"input": map[string]any{
		"attemptId": "att_01900000-0000-7000-8000-000000000000", "fencingToken": "01900000-0000-7000-8000-000000000000",
	}}, "")
	if err != nil {
		return nil, err
	}
	steps := make([]step, s.sized(heartbeatClients, 4))
	for i := range steps {
		c := wire.NewConn(server.endpoint.Host, "none")
		steps[i] = func() (int, error) {
			_, err := c.Post(b.text)
			return 1, err
		}
	}
	return append(all, Contestant{
		Name: "gqlgen", Role: Peer, Differs: "an empty mutation with the query cache: no key, no database",
		Round: func(ctx context.Context) (Figures, error) {
			f, _, err := atLoad(ctx, s.Effort.Span, steps)
			return f, err
		},
	}), nil
}
