package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/reelay/reelay/client"
)

// register enrols the worker. It retries for as long as the control plane is
// unreachable.
func (a *Agent) register(ctx context.Context, models []string) error {
	c := a.config
	in := client.RegisterWorkerInput{
		Provider: c.Provider, ProviderInstanceId: c.InstanceID, PoolId: optional(c.PoolID),
		Region: c.Region, Zone: optional(c.Zone), GpuType: c.GPUType, CapacityClass: c.CapacityClass,
		Models: models, WarmModels: a.runtimes.warm(), AgentVersion: c.Version,
	}
	for failures := 1; ; failures++ {
		r, err := a.registerOnce(ctx, in)
		if err == nil {
			a.api = a.api.WithKey(r.WorkerToken)
			a.worker = r.Worker.Id
			a.heartbeat, a.leaseTime = time.Duration(r.HeartbeatSeconds)*time.Second, time.Duration(r.LeaseSeconds)*time.Second
			a.log = a.log.With("worker", a.worker)
			a.log.Info("worker registered", "instance", c.InstanceID, "models", models)
			close(a.registered)
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if client.ErrorCode(err) == client.CodeUnauthenticated {
			// The API's own message is about HTTP headers.
			return errors.New("the key is unknown or revoked: set REELAY_API_KEY or --key to a key with the role WORKER")
		}
		if !theirFault(err) {
			return fmt.Errorf("register the worker: %w", err)
		}
		a.log.Warn("could not register the worker, retrying", "error", err)
		if err := pause(ctx, delay(err, failures)); err != nil {
			return err
		}
	}
}

func (a *Agent) registerOnce(ctx context.Context, in client.RegisterWorkerInput) (*client.Registration, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return a.api.RegisterWorker(ctx, in)
}
