package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/reelay/reelay/bench"
	"github.com/spf13/pflag"
)

// benchPlace is which Reelay is measured.
type benchPlace struct {
	data, endpoint, database string
}

func (p *benchPlace) addFlags(f *pflag.FlagSet) {
	f.StringVar(&p.data, "data", "", "data folder of a running `reelay up --agents 0` (default: starts a stack of its own)")
	f.StringVar(&p.endpoint, "endpoint", "", "address of the API of a Reelay that runs elsewhere; its ADMIN key in REELAY_API_KEY")
	f.StringVar(&p.database, "database", "", "address of that Reelay's PostgreSQL, for the limit and River; DATABASE_URL hides it from other users")
}

// open starts a stack, or finds the given one.
func (p *benchPlace) open(ctx context.Context, say func(line string)) (*bench.Site, func() error, error) {
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
		return &bench.Site{Admin: admin, DatabaseURL: cmp.Or(p.database, os.Getenv("DATABASE_URL")), RedisURL: os.Getenv("REDIS_URL"), Say: say}, nothing, err
	case p.data != "":
		keys, err := readCredentials(p.data)
		if err != nil {
			return nil, nil, fmt.Errorf("no stack runs in %s: %w", p.data, err)
		}
		site, err := siteOf(keys, p.data, say)
		return site, nothing, err
	}
	stack, err := startBenchStack(ctx)
	if err != nil {
		return nil, nil, err
	}
	site, err := siteOf(stack.credentials, stack.data, say)
	if err != nil {
		return nil, nil, errors.Join(err, stack.stop())
	}
	if stack.lack != nil {
		site.Lacks("objects in memory", stack.lack)
	}
	return site, stack.stop, nil
}
