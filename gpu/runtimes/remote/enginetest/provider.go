package enginetest

import (
	"testing"
	"time"

	"github.com/reelay/reelay/gpu/runtimes/remote/fakeprovider"
)

// Provider is the fake of a hosted provider, with faults. A kill leaves its jobs.
type Provider struct {
	server
	*fakeprovider.Fake
}

// NewProvider starts the fake of a provider.
func NewProvider(t testing.TB, config fakeprovider.Config) *Provider {
	t.Helper()
	if config.Film == nil {
		config.Film = func(job fakeprovider.Task) ([]byte, error) { return Film(t, job.ID, small), nil }
	}
	fake, err := fakeprovider.New(config)
	if err != nil {
		t.Fatal(err)
	}
	p := &Provider{server: server{t: t, boot: func() {}}, Fake: fake}
	p.start(fake)
	return p
}

// Run makes all jobs take a step at each tick until the test ends.
func (p *Provider) Run(tick time.Duration) { p.every(tick, p.Fake.Step) }

// Step makes all running jobs take a step.
func (p *Provider) Step() { p.Fake.Step() }
