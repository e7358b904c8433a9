package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/reelay/reelay/bench"
	"github.com/reelay/reelay/client"
	"github.com/spf13/pflag"
)

// place says which Reelay is measured.
type place struct {
	data, endpoint, database string
	reelay                   string // the program with which a stack is started
}

func (p *place) addFlags(f *pflag.FlagSet) {
	f.StringVar(&p.data, "data", "", "data folder of a running `reelay up --agents 0` (default: starts a stack of its own)")
	f.StringVar(&p.endpoint, "endpoint", "", "address of the API of a Reelay that runs elsewhere; its ADMIN key in REELAY_API_KEY")
	f.StringVar(&p.database, "database", "",
		"address of that Reelay's PostgreSQL, for the limit and River; DATABASE_URL hides it from other users")
	f.StringVar(&p.reelay, "reelay", "", "program to start a stack with (default: reelay in the folder of this program)")
}

// open starts a stack or returns the given one, for the measurement of stores beside one of its own.
func (p *place) open(ctx context.Context, name string, say func(line string)) (*bench.Site, func() error, error) {
	site, closeSite, err := p.openOne(ctx, name, say)
	if err != nil || name != bench.Stores {
		return site, closeSite, err
	}
	s3, closeS3, err := p.start(ctx, "s3", false, 1, say)
	if err != nil {
		return nil, nil, errors.Join(err, closeSite())
	}
	site.S3 = s3
	return site, func() error { return errors.Join(closeS3(), closeSite()) }, nil
}

func (p *place) openOne(ctx context.Context, name string, say func(line string)) (*bench.Site, func() error, error) {
	nothing := func() error { return nil }
	switch {
	case p.data != "" && p.endpoint != "":
		return nil, nil, errors.New("--data and --endpoint are set: use one of them")
	case p.endpoint != "":
		key := os.Getenv("REELAY_API_KEY")
		if key == "" {
			return nil, nil, fmt.Errorf("there is no key for %s: set REELAY_API_KEY to one of an ADMIN", p.endpoint)
		}
		admin, err := newClient(p.endpoint, key, os.Getenv("REELAY_CA_FILE"))
		return &bench.Site{Admin: admin, DatabaseURL: cmp.Or(p.database, os.Getenv("DATABASE_URL")), RedisURL: os.Getenv("REDIS_URL"), Say: say},
			nothing, err
	case p.data != "":
		site, err := siteOf(p.data, say)
		if err != nil {
			err = fmt.Errorf("no stack runs in %s: %w", p.data, err)
		}
		return site, nothing, err
	}
	controls := 1
	if name == bench.Schedules {
		controls = 2
	}
	return p.start(ctx, "", name == bench.Fleet, controls, say)
}

// start starts a stack.
func (p *place) start(ctx context.Context, store string, debug bool, controls int, say func(line string)) (*bench.Site, func() error, error) {
	stack, err := startStack(ctx, p.reelay, store, debug, controls)
	if err != nil {
		return nil, nil, err
	}
	site, err := siteOf(stack.data, say)
	if err != nil {
		return nil, nil, errors.Join(err, stack.stop())
	}
	if stack.lack != nil {
		site.Lacks("objects in memory", stack.lack)
	}
	return site, stack.stop, nil
}

// program returns the reelay with which a stack is started.
func program(named string) (string, error) {
	if named != "" {
		return named, nil
	}
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	return filepath.Join(filepath.Dir(self), "reelay"), nil
}

// newClient returns a client that also trusts the certificates in caFile, if it is not empty.
func newClient(endpoint, key, caFile string) (*client.Client, error) {
	trust, err := client.TrustFile(caFile)
	if err != nil {
		return nil, err
	}
	return client.New(endpoint, key, trust)
}
