package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// peersSource is the folder of the peers' module in a checkout of Reelay.
const peersSource = "bench/peers"

// faktoryPackage is the server, whose version bench/peers/go.mod pins.
const faktoryPackage = "github.com/contribsys/faktory/cmd/faktory"

// FindPeers returns the programs in a folder. It first builds them there from the module
// bench/peers if the working directory is a checkout. With an error it may still return the
// program that measures the peers.
func FindPeers(ctx context.Context, folder string) (*Peers, error) {
	p := &Peers{}
	path, err := have(ctx, filepath.Join(folder, "bench-peers"), ".")
	if err != nil {
		return nil, err
	}
	p.Program = path
	p.Faktory, err = have(ctx, filepath.Join(folder, "faktory"), faktoryPackage)
	return p, err
}

// have returns the program at path and builds it if possible. A second build takes no
// time.
func have(ctx context.Context, path, pkg string) (string, error) {
	if _, err := os.Stat(filepath.Join(peersSource, "go.mod")); err != nil {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
		return "", fmt.Errorf("there is no %s, nor %s to build it from: run the bench in a checkout of Reelay", path, peersSource)
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	build := exec.CommandContext(ctx, "go", "build", "-C", peersSource, "-o", absolute, pkg)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w: %.500s", pkg, err, out)
	}
	return absolute, nil
}

// rival is a peer that is ready for a measurement.
type rival struct {
	site *Site
	env  []string
}

// peer creates what a peer needs: a database for river, Redis for asynq, a server for
// faktory, nothing for gqlgen. If that fails, it reports the peer as missing and returns
// nil.
func (s *Site) peer(ctx context.Context, name string) *rival {
	r, err := s.makePeer(ctx, name)
	if err != nil {
		s.Lacks(name, err)
		return nil
	}
	return r
}

func (s *Site) makePeer(ctx context.Context, name string) (*rival, error) {
	if s.Peers == nil {
		return nil, errors.New("the program that measures the peers was not found")
	}
	r := &rival{site: s, env: os.Environ()}
	switch name {
	case "river":
		address, err := s.beside(ctx, peersDatabase)
		r.env = append(r.env, "PEERS_DATABASE_URL="+address)
		return r, err
	case "asynq":
		if s.RedisURL == "" {
			return nil, errors.New("the address of Redis is not known: set REDIS_URL, or give --data of a running `reelay up`")
		}
		r.env = append(r.env, "PEERS_REDIS_URL="+s.RedisURL)
	case "faktory":
		address, err := s.startFaktory(ctx)
		r.env = append(r.env, "PEERS_FAKTORY="+address)
		return r, err
	}
	return r, nil
}

// order holds the arguments of a peer.
type order struct {
	what    string // the peer and the measurement
	clients int
	n       int
	span    time.Duration
	pause   time.Duration
}

// contestant returns a contestant that measures a peer in a new process for each round.
func (r *rival) contestant(name string, o order, differs string) Contestant {
	return Contestant{Name: name, Role: Peer, Differs: differs, Round: func(ctx context.Context) (Figures, error) {
		span := o.span
		if span == 0 {
			span = r.site.Effort.Span
		}
		args := append(strings.Fields(o.what), "--clients", strconv.Itoa(o.clients), "--n", strconv.Itoa(o.n),
			"--seconds", strconv.FormatFloat(span.Seconds(), 'f', 3, 64), "--pause-ms", strconv.FormatInt(o.pause.Milliseconds(), 10))
		cmd := r.command(ctx, args...)
		out, err := cmd.Output()
		if err != nil {
			said := ""
			if exit, ok := errors.AsType[*exec.ExitError](err); ok {
				said = string(exit.Stderr)
			}
			return nil, fmt.Errorf("%s: %w: %.500s", o.what, err, said)
		}
		var f Figures
		return f, json.Unmarshal(out, &f)
	}}
}

func (r *rival) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, r.site.Peers.Program, args...)
	cmd.Env = r.env
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// with adds a contestant if the peer is available.
func (r *rival) with(all []Contestant, name string, o order, differs string) []Contestant {
	if r == nil {
		return all
	}
	return append(all, r.contestant(name, o, differs))
}
