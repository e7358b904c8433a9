package gce_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/gpu/provider/gce"
	"github.com/reelay/reelay/gpu/provider/gce/fakegce"
	"github.com/reelay/reelay/internal/secrets"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
	"google.golang.org/api/compute/v1"
)

// enrolmentKey has the form of a key.
var enrolmentKey, _ = secrets.New(secrets.KeyPrefix)

const (
	zoneA = "us-central1-a"
	zoneB = "us-central1-b"
	zoneC = "us-central1-c"
)

// start starts a project with three zones, and a provider for it.
func start(t *testing.T, edits ...func(*gce.Config)) (*fakegce.Server, *gce.Provider) {
	t.Helper()
	server := fakegce.Start(zoneA, zoneB, zoneC, "europe-west4-a")
	t.Cleanup(server.Close)
	key := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(key, []byte(enrolmentKey+"\n"), 0o600))
	config := gce.Config{
		APIEndpoint: server.URL, Cluster: "Production #1", Enrolment: fleet.Enrolment{Endpoint: "https://reelay.example", KeyFile: key},
		Wait: 20 * time.Second, CallTimeout: 10 * time.Second, Retry: time.Millisecond,
	}
	for _, edit := range edits {
		edit(&config)
	}
	return server, gce.New(config)
}

// short makes Create return early while an operation runs.
func short(c *gce.Config) { c.Wait = time.Second }

// newPool returns a pool of spot machines, with its settings edited.
func newPool(t *testing.T, edits ...func(settings map[string]any)) *capacity.Pool {
	t.Helper()
	settings := map[string]any{
		"project": fakegce.Project, "image": "projects/" + fakegce.Project + "/global/images/family/worker",
		"container": "europe-docker.pkg.dev/p/r/agent:1",
	}
	for _, edit := range edits {
		edit(settings)
	}
	raw, err := json.Marshal(settings)
	require.NoError(t, err)
	pool := &capacity.Pool{ID: models.NewPoolID()}
	pool.Name, pool.Provider, pool.Region, pool.Zones = "video", gce.Name, "us-central1", []string{zoneA, zoneB, zoneC}
	pool.MachineType, pool.GPUType, pool.CapacityClass = "g2-standard-4", "L4", models.CapacitySpot
	pool.Models, pool.MaxWorkers, pool.Settings = []string{"ltx", "wan"}, 4, raw
	return pool
}

// classes returns the class of each error, or "" where there is none.
func classes(all []fleet.Created) []fleet.ErrorClass {
	var found []fleet.ErrorClass
	for _, c := range all {
		if c.Err == nil {
			found = append(found, "")
			continue
		}
		found = append(found, fleet.ClassOf(c.Err))
	}
	return found
}

// places returns the instances of the server as zone/name.
func places(server *fakegce.Server) []string {
	var all []string
	for _, i := range server.Instances() {
		all = append(all, filepath.Base(i.Zone)+"/"+i.Name)
	}
	return all
}

// body decodes the only request of a method.
func body[T any](t *testing.T, server *fakegce.Server, method string) T {
	t.Helper()
	calls := server.Calls(method)
	require.Len(t, calls, 1)
	var value T
	require.NoError(t, json.Unmarshal(calls[0].Body, &value))
	return value
}

func metadata(m *compute.Metadata) map[string]string {
	values := map[string]string{}
	for _, item := range m.Items {
		values[item.Key] = *item.Value
	}
	return values
}
