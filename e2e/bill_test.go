package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/provider/gce/fakegce"
	"github.com/reelay/reelay/internal/localstack"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
	compute "google.golang.org/api/compute/v1"
)

// billedHour is what a machine of the cloud costs for an hour, in US dollars.
const billedHour = 36

// billedCloud is a cloud with a bill of its own, whose machines run real agents. The first of them never registers.
type billedCloud struct {
	*fakegce.Server
	issuer *fakegce.Issuer
	stack  *stack
	dir    string

	mu       sync.Mutex
	machines map[string]*billedMachine
}

// billedMachine is a machine with its agent, which is nil if it does not boot.
type billedMachine struct {
	instance *compute.Instance
	metadata *fakegce.Metadata
	agent    *localstack.Child
}

// pool makes the pool of the cloud's machines.
func (c *billedCloud) pool(t *testing.T) {
	t.Helper()
	_, err := c.stack.operator(t).ApplyPools(t.Context(), "pools.yaml", fmt.Sprintf(`pools: [{name: spot, provider: gce, region: us-central1,
		zones: [us-central1-a], gpuType: L4, machineType: g2-standard-4, models: [testcard, drill], minWorkers: 3, maxWorkers: 3,
		pricePerHourUsd: %d, settings: {project: %s, image: projects/p/global/images/worker, container: reelay-agent,
		serviceAccount: worker@p.iam.gserviceaccount.com}}]`, billedHour, fakegce.Project), false)
	require.NoError(t, err)
}

// boot starts the agents of new machines, until the test ends.
func (c *billedCloud) boot(t *testing.T) {
	t.Helper()
	ctx, end := context.WithCancel(context.Background())
	var booting sync.WaitGroup
	booting.Go(func() {
		for tick := time.Tick(50 * time.Millisecond); ; {
			select {
			case <-ctx.Done():
				return
			case <-tick:
			}
			for _, i := range c.Instances() {
				c.start(t, i)
			}
		}
	})
	t.Cleanup(func() {
		end()
		booting.Wait()
		for name, m := range c.machines {
			if m.agent == nil {
				continue
			}
			m.agent.Kill()
			m.metadata.Close()
			if text, _ := os.ReadFile(filepath.Join(c.dir, name+".log")); t.Failed() {
				t.Logf("the agent of %s:\n%s", name, text)
			}
		}
	})
}

// start starts the agent of a machine that is new, and not the first.
func (c *billedCloud) start(t *testing.T, i *compute.Instance) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.machines[i.Name] != nil {
		return
	}
	m := &billedMachine{instance: i}
	c.machines[i.Name] = m
	if len(c.machines) == 1 {
		return
	}
	m.metadata = fakegce.StartMetadata(c.issuer, i)
	child, err := localstack.StartChild(localstack.ChildConfig{
		Name: i.Name, Path: reelay, Log: filepath.Join(c.dir, i.Name+".log"),
		Args: []string{"agent", "--endpoint", c.stack.keys.Endpoint, "--provider", "gce", "--instance-id", i.Name, "--pool", i.Labels["reelay-pool"], "--region",
			"us-central1", "--gpu-type", "L4", "--models", "testcard,drill", "--runtime", "testcard=" + reelay + " runtime testcard",
			"--runtime", "drill=" + reelay + " runtime drill", "--work-dir", c.dir},
		Env: append(os.Environ(), "GCE_METADATA_HOST="+m.metadata.Host, "REELAY_API_KEY="),
	})
	if err != nil {
		t.Error(err)
		return
	}
	m.agent = child
}

// of returns the machine of the worker that holds a job.
func (c *billedCloud) of(t *testing.T, job string) *billedMachine {
	t.Helper()
	name := workerOf(t, c.stack, job).ProviderInstanceId
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.machines[name]
}

// usd is the bill of all machines.
func (c *billedCloud) usd() (sum float64) {
	for _, b := range c.Bill() {
		sum += b.Seconds(time.Now()) / 3600 * billedHour
	}
	return sum
}

// TestBill compares the bill of a cloud with what jobs cost and with what machines cost, after preemptions, failures, a
// draft, idle time, a hosted provider, and a machine that never registers. The long form, which nights run, also loses a
// machine without notice.
func TestBill(t *testing.T) {
	t.Parallel()
	issuer, err := fakegce.StartIssuer()
	require.NoError(t, err)
	t.Cleanup(issuer.Close)
	cloud := &billedCloud{Server: fakegce.Start("us-central1-a"), issuer: issuer, dir: t.TempDir(), machines: map[string]*billedMachine{}}
	t.Cleanup(cloud.Close)
	s := startProvidersWith(t, []string{
		"REELAY_GCE_ENDPOINT=" + cloud.URL, "REELAY_GCE_IDENTITY_PROJECTS=" + fakegce.Project, "REELAY_GCE_IDENTITY_KEYS_URL=" + issuer.URL,
	})
	cloud.stack = s
	hosted := s.rent(t, "hosted", 1, 4)
	hosted.fake.Run(50 * time.Millisecond)
	c, operator := s.client(t), s.operator(t)
	_, err = operator.ImportProviderPrices(t.Context(), "prices.yaml", feePrices, false)
	require.NoError(t, err)
	cloud.Inject(fakegce.Fault{Method: "instances.bulkInsert", Lost: true})
	cloud.pool(t)
	cloud.boot(t)

	long := submit(t, c, "a train through the night", 3, 2)
	until(t, c, long, beyond(30, 1))
	taken := cloud.of(t, long)
	taken.metadata.Preempt()
	<-taken.agent.Done()
	cloud.Preempt("us-central1-a", taken.instance.Name)
	ids := []string{long}
	add := func(in client.SubmitJobInput) string {
		made, err := c.SubmitJob(t.Context(), in)
		require.NoError(t, err)
		ids = append(ids, made.Job.Id)
		return made.Job.Id
	}
	crash, pace := json.RawMessage(`{"misbehave": "crash", "misbehaveAt": 5}`), json.RawMessage(`{"durationSeconds": 1, "pace": 2}`)
	failed := add(client.SubmitJobInput{Model: "drill", Prompt: new("it fails"), Params: &crash, MaxAttempts: new(1)})
	add(client.SubmitJobInput{Model: "testcard", Prompt: new("a draft"), Params: &pace, Draft: &client.DraftInput{Steps: 2}})
	add(client.SubmitJobInput{Model: "hosted", Prompt: new("elsewhere")})
	if testrun.Nightly() {
		id := add(client.SubmitJobInput{Model: "testcard", Prompt: new("lost without notice"), Params: &pace})
		until(t, c, id, beyond(30, 1))
		lost := cloud.of(t, id)
		lost.agent.Kill()
		cloud.Preempt("us-central1-a", lost.instance.Name)
	}
	for _, id := range ids {
		status := client.JobStatusCompleted
		if id == failed {
			status = client.JobStatusFailed
		}
		s.await(t, c, id, status)
	}
	pools, err := operator.Pools(t.Context())
	require.NoError(t, err)
	for _, p := range pools {
		if p.Name == "spot" {
			_, err = operator.PausePool(t.Context(), p.Id)
			require.NoError(t, err)
		}
	}
	testrun.Eventually(t, "that all machines are gone", func() bool {
		page, err := operator.Machines(t.Context(), client.MachineFilter{}, 100, "")
		require.NoError(t, err)
		for _, edge := range page.Edges {
			if edge.Node.State != client.MachineStateGone {
				return false
			}
		}
		return len(cloud.Instances()) == 0
	})

	var fees, jobs, share, fleet float64
	for _, id := range ids {
		job, err := operator.JobHistory(t.Context(), id)
		require.NoError(t, err)
		for _, a := range job.Attempts {
			require.NotNil(t, a.CostUsd, "%s", id)
			jobs += *a.CostUsd + *a.WastedCostUsd
		}
	}
	report, err := operator.Costs(t.Context(), client.CostRequest{By: client.CostGroupProvider, First: 9})
	require.NoError(t, err)
	require.Zero(t, report.Total.Unpriced)
	require.InDelta(t, jobs, *report.Total.CostUsd, 1e-6)
	for _, row := range report.Rows {
		if row.Key == "kling" {
			fees = *row.CostUsd
		}
	}
	require.InDelta(t, 0.36, fees, 1e-9)
	operators := map[client.PaidClass]bool{client.PaidClassBoot: true, client.PaidClassIdle: true, client.PaidClassEnding: true}
	for _, part := range report.Machines {
		fleet += part.Usd
		if operators[part.Class] {
			share += part.Usd
		}
		t.Logf("%s: %.1f s, $%.4f", part.Class, part.Seconds, part.Usd)
	}
	bill := cloud.usd()
	t.Logf("jobs $%.4f with fees of $%.4f, operator $%.4f, fleet $%.4f, bill $%.4f for %d machines", jobs, fees, share, fleet, bill, len(cloud.Bill()))
	require.InEpsilon(t, fleet, jobs-fees+share, 0.02, "the jobs and the operator pay for the fleet")
	require.InEpsilon(t, bill, fleet, 0.02, "the fleet costs what the cloud bills")

	path := filepath.Join(t.TempDir(), "bill.csv")
	file, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, cloud.WriteBill(file, billedHour))
	require.NoError(t, file.Close())
	out, errs, status := s.command(t, "costs", "reconcile", "--bill", path)
	require.Zero(t, status, out+errs)
	require.Contains(t, out, "The bill and Reelay agree on all machines.")
}
