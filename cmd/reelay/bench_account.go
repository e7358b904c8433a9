package main

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/reelay/reelay/client"
)

// benchAccount is an account of a bench's own, so that no limit of a tier is
// what is measured, and nobody's limits change. Its tier is the one that is never
// OVERLOADED.
type benchAccount struct {
	id    string
	admin *client.Client
}

func newBenchAccount(ctx context.Context, keys credentials) (*benchAccount, error) {
	admin, err := newClient(keys.Endpoint, keys.AdminKey, keys.CAFile)
	if err != nil {
		return nil, err
	}
	account, err := admin.CreateAccount(ctx, client.AccountInput{
		Name: new("bench " + uuid.NewString()), Tier: new(client.TierBatch),
		MaxQueued: new(1_000_000), MaxRunning: new(10_000), SubmitsPerMinute: new(1_000_000),
	})
	if err != nil {
		return nil, err
	}
	return &benchAccount{account.Id, admin}, nil
}

// key makes a client's key that is good for a day.
func (a *benchAccount) key(ctx context.Context) (string, error) {
	key, err := a.admin.CreateAPIKey(ctx, a.id, client.RoleClient, "bench", time.Now().Add(24*time.Hour))
	if err != nil {
		return "", err
	}
	return key.Secret, nil
}

// enrolBenchWorker registers a worker that renders nothing.
func enrolBenchWorker(ctx context.Context, enrol *client.Client) (worker *client.Client, id string, err error) {
	registration, err := enrol.RegisterWorker(ctx, client.RegisterWorkerInput{
		Provider: "bench", ProviderInstanceId: "bench-" + uuid.NewString(), Region: "local", GpuType: "any",
		CapacityClass: client.CapacityClassOnDemand, Models: []string{"testcard"}, AgentVersion: version(),
	})
	if err != nil {
		return nil, "", err
	}
	return enrol.WithKey(registration.WorkerToken), registration.Worker.Id, nil
}
