package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/reelay/reelay/client"
)

// zombies are workers that go silent while they hold a job, and return with the old token
// when another worker has the job. They try every call that the token allowed before. Real
// agents stop by themselves, so they would not show whether the server refuses stale tokens.
type zombies struct {
	stack    *stack
	counters *counters
	wait     sync.WaitGroup

	mu      sync.Mutex
	made    int
	strange []string // answers to stale writes other than a refusal
}

// zombieLife is the minimum duration of a job that a zombie keeps, so that the newer attempt
// still runs when the zombie returns.
const zombieLife = 12 * time.Second

func (z *zombies) run(ctx context.Context, number int) {
	for range number {
		z.wait.Go(func() {
			for ctx.Err() == nil {
				if err := z.live(ctx); err != nil {
					sleep(ctx, time.Second)
				}
			}
		})
	}
	z.wait.Wait()
}

// live is one zombie's life: lease, upload, fall silent, be reaped, come back.
func (z *zombies) live(ctx context.Context) error {
	c, worker, err := z.register(ctx)
	if err != nil {
		return err
	}
	defer func() {
		leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
		defer cancel()
		_ = c.DeregisterWorker(leave, worker)
	}()
	lease, err := z.leaseLong(ctx, c, worker)
	if err != nil || lease == nil {
		return err
	}
	hold := lease.Fence()
	if _, err := c.Heartbeat(ctx, client.HeartbeatInput{AttemptId: hold.AttemptID, FencingToken: hold.FencingToken}); err != nil {
		return err
	}
	video, err := upload(ctx, c, hold, client.ArtifactTypeCheckpoint, "application/octet-stream")
	if err != nil {
		return err
	}
	if !z.reaped(ctx, lease) {
		return nil
	}
	z.comeBack(ctx, c, hold, video)
	return nil
}

func (z *zombies) register(ctx context.Context) (*client.Client, string, error) {
	z.mu.Lock()
	z.made++
	instance := fmt.Sprintf("zombie-%d", z.made)
	z.mu.Unlock()
	c, err := client.New(z.stack.directAt, z.stack.enrolment)
	if err != nil {
		return nil, "", err
	}
	r, err := c.RegisterWorker(ctx, client.RegisterWorkerInput{
		Provider: "static", ProviderInstanceId: instance, Region: "local", GpuType: "any",
		CapacityClass: client.CapacityClassSpot, Models: []string{"drill"}, AgentVersion: "zombie",
	})
	if err != nil {
		return nil, "", err
	}
	return c.WithKey(r.WorkerToken), r.Worker.Id, nil
}

// leaseLong leases jobs until it gets one that takes long enough, and releases the others.
func (z *zombies) leaseLong(ctx context.Context, c *client.Client, worker string) (*client.Lease, error) {
	for ctx.Err() == nil {
		id := uuid.NewString()
		answer, err := c.LeaseJob(ctx, client.LeaseJobInput{WorkerId: worker, WaitSeconds: new(5), RequestId: &id})
		if err != nil {
			return nil, err
		}
		if answer.Lease == nil {
			continue
		}
		var params struct {
			Steps, StepMillis int
			Misbehave         string
		}
		_ = json.Unmarshal(answer.Lease.Job.Params, &params)
		takes := time.Duration(params.Steps*params.StepMillis) * time.Millisecond
		if takes >= zombieLife && params.Misbehave == "none" {
			return answer.Lease, nil
		}
		if _, err := c.ReleaseJob(ctx, answer.Lease.Fence(), client.FailureClassPreempted); err != nil {
			return nil, err
		}
		sleep(ctx, 500*time.Millisecond)
	}
	return nil, ctx.Err()
}

// upload stores some meaningless bytes under a key of the attempt.
func upload(ctx context.Context, c *client.Client, hold client.Fence, kind client.ArtifactType, contentType string) (*client.UploadedObject,
	error) {
	data := []byte("brains, said the zombie: " + rand.Text())
	sum, size, err := client.Checksum(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	target, err := c.RequestUpload(ctx, client.RequestUploadInput{
		AttemptId: hold.AttemptID, FencingToken: hold.FencingToken, Type: kind, ContentType: contentType, SizeBytes: size, Checksum: sum,
	})
	if err != nil {
		return nil, err
	}
	if err := c.Upload(ctx, target, bytes.NewReader(data), size); err != nil {
		return nil, err
	}
	return &client.UploadedObject{ObjectKey: target.ObjectKey, SizeBytes: size, Checksum: sum, ContentType: contentType}, nil
}

// reaped waits until the attempt has ended and another one runs.
func (z *zombies) reaped(ctx context.Context, lease *client.Lease) bool {
	id := strings.TrimPrefix(lease.AttemptId, "att_")
	for limit := time.Now().Add(3 * time.Minute); time.Now().Before(limit) && ctx.Err() == nil; sleep(ctx, 300*time.Millisecond) {
		var newer, over bool
		err := z.stack.db.NewRaw(`
			SELECT EXISTS (SELECT FROM job_attempts b WHERE b.job_id = a.job_id AND b.attempt_no > a.attempt_no AND b.ended_at IS NULL),
				j.completed_at IS NOT NULL
			FROM job_attempts a JOIN jobs j ON j.id = a.job_id WHERE a.id = ?`, id).Scan(ctx, &newer, &over)
		if err == nil && newer {
			return true
		}
		if err == nil && over {
			return false
		}
	}
	return false
}

// comeBack tries every call with the old token. All must be refused. A call that was not
// refused shows at the latest in the check of events, objects and videos.
func (z *zombies) comeBack(ctx context.Context, c *client.Client, hold client.Fence, object *client.UploadedObject) {
	video := *object
	video.ContentType = "video/mp4"
	for _, write := range []struct {
		name string
		do   func(ctx context.Context) error
	}{
		{"heartbeat", func(ctx context.Context) error {
			_, err := c.Heartbeat(ctx, client.HeartbeatInput{AttemptId: hold.AttemptID, FencingToken: hold.FencingToken})
			return err
		}},
		{"reportProgress", func(ctx context.Context) error {
			_, err := c.ReportProgress(ctx, client.ProgressInput{AttemptId: hold.AttemptID, FencingToken: hold.FencingToken, Percent: 99,
				Phase: client.PhaseRendering})
			return err
		}},
		{"requestUpload", func(ctx context.Context) error {
			_, err := upload(ctx, c, hold, client.ArtifactTypeFinalVideo, "video/mp4")
			return err
		}},
		{"commitCheckpoint", func(ctx context.Context) error {
			_, err := c.CommitCheckpoint(ctx, client.CommitCheckpointInput{AttemptId: hold.AttemptID, FencingToken: hold.FencingToken,
				Object: *object, Step: 1, Percent: 1})
			return err
		}},
		{"completeJob", func(ctx context.Context) error {
			_, err := c.CompleteJob(ctx, client.CompleteJobInput{AttemptId: hold.AttemptID, FencingToken: hold.FencingToken, Video: &video})
			return err
		}},
		{"failJob", func(ctx context.Context) error {
			_, err := c.FailJob(ctx, client.FailJobInput{AttemptId: hold.AttemptID, FencingToken: hold.FencingToken,
				Class: client.FailureClassInvalidInput, Message: "brains"})
			return err
		}},
		{"releaseJob", func(ctx context.Context) error {
			_, err := c.ReleaseJob(ctx, hold, client.FailureClassPreempted)
			return err
		}},
	} {
		if z.refused(ctx, write.name, write.do) && write.name == "completeJob" {
			z.counters.add(metZombie, 1)
		}
	}
}

// refused repeats one stale write until it gets an answer, and reports whether that was a
// refusal.
func (z *zombies) refused(ctx context.Context, name string, do func(context.Context) error) bool {
	for range 20 {
		limited, cancel := context.WithTimeout(ctx, callLimit)
		err := do(limited)
		cancel()
		switch code := client.ErrorCode(err); code {
		case client.CodeUnavailable, client.CodeInternal:
			sleep(ctx, 500*time.Millisecond)
			continue
		case client.CodeLeaseLost, client.CodeUnauthenticated, client.CodeNotFound:
			z.counters.add(metStale, 1)
			return true
		default:
			if ctx.Err() != nil {
				return false
			}
			z.counters.add(badStaleWrite, 1)
			z.mu.Lock()
			z.strange = append(z.strange, fmt.Sprintf("%s with a stale token: code %q, error %v", name, code, err))
			z.mu.Unlock()
			return false
		}
	}
	return false
}
