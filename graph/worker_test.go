package graph_test

import (
	"testing"
	"time"

	"github.com/reelay/reelay/jobs/checkpoints"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

const leaseFields = `attemptId fencingToken attemptNo leaseExpiresAt checkpointSeconds timeoutSeconds checkpoints { id } job { id type prompt params tier status attemptNo }`

// lease leases a job as a worker over the API and returns the lease.
func (a *api) lease(t *testing.T, id, token string) map[string]any {
	t.Helper()
	got := ask(t, a.url, token, `mutation ($i: LeaseJobInput!) { leaseJob(input: $i) { lease { `+leaseFields+` } directive { action } } }`,
		map[string]any{"i": map[string]any{"workerId": id, "waitSeconds": 5}})
	require.Empty(t, got.Errors)
	return at[map[string]any](t, got.Data, "leaseJob", "lease")
}

func fence(lease map[string]any, more map[string]any) map[string]any {
	input := map[string]any{"attemptId": lease["attemptId"], "fencingToken": lease["fencingToken"]}
	for name, value := range more {
		input[name] = value
	}
	return map[string]any{"i": input}
}

func TestWorker(t *testing.T) {
	t.Parallel()

	t.Run("RunsAJobFromLeaseToVideo", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		job, next := a.Submit(t), a.Submit(t)
		id, token := a.worker(t, "i-1")
		granted := a.lease(t, id, token)
		require.Equal(t, "a lighthouse in the fog", at[string](t, granted, "job", "prompt"))
		require.Equal(t, checkpoints.Unmeasured.Seconds(), at[float64](t, granted, "checkpointSeconds"))
		principal, err := a.Keys.Authenticate(t.Context(), token)
		require.NoError(t, err)
		held := lease.Fence{
			AttemptID: models.AttemptID(at[string](t, granted, "attemptId")), Token: models.FencingToken(at[string](t, granted, "fencingToken")),
		}

		beat := ask(t, a.url, token, `mutation ($i: HeartbeatInput!) { heartbeat(input: $i) { leaseExpiresAt directive { action } } }`,
			fence(granted, map[string]any{"gpus": []any{
				map[string]any{"index": 1, "utilization": 0.5, "memoryUsedBytes": "9007199254740993"},
				map[string]any{"index": 0, "utilization": 1, "powerW": 71.5},
			}}))
		progress := ask(t, a.url, token, `mutation ($i: ProgressInput!) { reportProgress(input: $i) { directive { action } } }`,
			fence(granted, map[string]any{"percent": 40, "phase": "RENDERING", "step": 4, "totalSteps": 10, "message": "frame 4"}))
		target := ask(t, a.url, token,
			`mutation ($i: RequestUploadInput!) { requestUpload(input: $i) { objectKey url method headers expiresAt } }`,
			fence(granted, map[string]any{"type": "CHECKPOINT", "contentType": "application/zip", "sizeBytes": 4, "checksum": jobsChecksum}))
		stored := ask(t, a.url, token,
			`mutation ($a: ID!, $f: ID!) { storeHandle(attemptId: $a, fencingToken: $f, value: "prediction 7") { leaseExpiresAt } }`,
			map[string]any{"a": granted["attemptId"], "f": granted["fencingToken"]})
		require.Empty(t, stored.Errors)
		require.Equal(t, true, at[bool](t, a.client(t, `query ($id: ID!) { job(id: $id) { hasHandle } }`, map[string]any{"id": job.ID}), "job",
			"hasHandle"))
		video := a.Upload(t, principal, held, models.ArtifactFinalVideo, []byte("video"))
		end := ask(t, a.url, token, `mutation ($i: CompleteJobInput!) { completeJob(input: $i) { job { id status prompt } next { `+leaseFields+
			` } } }`,
			fence(granted, map[string]any{"leaseNext": true, "video": map[string]any{
				"objectKey": video.ObjectKey, "sizeBytes": video.SizeBytes, "checksum": video.Checksum, "contentType": video.ContentType,
				"metadata": map[string]any{"durationSeconds": 1},
			}}))

		require.Empty(t, beat.Errors)
		require.Equal(t, "CONTINUE", at[string](t, beat.Data, "heartbeat", "directive", "action"))
		_, err = capacity.PutGPUMinute(t.Context(), a.DB, time.Now().Truncate(time.Minute))
		require.NoError(t, err)
		seen := ask(t, a.url, a.Secrets[access.RoleOperator],
			`query ($id: ID!) { worker(id: $id) { agentVersion gpuHistory { at utilization memory temperatureC } gpus { index utilization memoryUsedBytes powerW xid } } }`,
			map[string]any{"id": id})
		require.Equal(t, []any{
			map[string]any{"index": 0.0, "utilization": 1.0, "memoryUsedBytes": nil, "powerW": 71.5, "xid": nil},
			map[string]any{"index": 1.0, "utilization": 0.5, "memoryUsedBytes": "9007199254740993", "powerW": nil, "xid": nil},
		}, at[[]any](t, seen.Data, "worker", "gpus"))
		require.Equal(t, []any{75.0}, at[[]any](t, seen.Data, "worker", "gpuHistory", "utilization"))
		require.Equal(t, []any{nil}, at[[]any](t, seen.Data, "worker", "gpuHistory", "temperatureC"))
		require.Empty(t, progress.Errors)
		require.Empty(t, target.Errors)
		require.Equal(t, "PUT", at[string](t, target.Data, "requestUpload", "method"))
		require.NotNil(t, at[map[string]any](t, target.Data, "requestUpload", "headers"))
		require.Empty(t, end.Errors)
		require.Equal(t, "COMPLETED", at[string](t, end.Data, "completeJob", "job", "status"))
		require.Nil(t, at[map[string]any](t, end.Data, "completeJob", "job")["prompt"], "it does not hold the job any more")
		require.Equal(t, string(next.ID), at[string](t, end.Data, "completeJob", "next", "job", "id"))
		require.NotEmpty(t, at[string](t, end.Data, "completeJob", "next", "job", "prompt"))

		done := a.client(t, `query ($id: ID!) { job(id: $id) {
			progress { percent } result { id type sizeBytes url metadata } artifacts(type: FINAL_VIDEO) { id } none: artifacts(type: LOG) { id }
			attempts { status worker { id } } events { edges { node { seq type payload } } } } }`, map[string]any{"id": job.ID})
		require.EqualValues(t, 100, at[float64](t, done, "job", "progress", "percent"))
		require.Len(t, at[[]any](t, done, "job", "artifacts"), 1)
		require.Empty(t, at[[]any](t, done, "job", "none"))
		require.NotEmpty(t, at[string](t, done, "job", "result", "url"))
		require.Equal(t, "SUCCEEDED", at[string](t, done, "job", "attempts", 0, "status"))
		require.Equal(t, "QUEUED", at[string](t, done, "job", "events", "edges", 0, "node", "type"))
		gpus := a.as(t, access.RoleOperator, `query ($id: ID!) { worker(id: $id) { jobsCompleted } }`, map[string]any{"id": id})
		require.EqualValues(t, 1, at[float64](t, gpus, "worker", "jobsCompleted"))
	})

	t.Run("SeesOnlyItsOwnWork", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		a.Submit(t)
		id, token := a.worker(t, "i-1")
		lease := a.lease(t, id, token)

		for field, code := range map[string]string{
			"account { id }": "FORBIDDEN", "attempts { id }": "FORBIDDEN", "artifacts { id }": "FORBIDDEN", "lane": "FORBIDDEN",
			"hasHandle":                   "FORBIDDEN",
			"events { edges { cursor } }": "FORBIDDEN", "metadata": "", "idempotencyKey": "", "userId": "", "createdBy": "", "result { id }": "",
		} {
			got := ask(t, a.url, token, `mutation ($i: ReleaseJobInput!) { releaseJob(input: $i) { id prompt `+field+` } }`, fence(lease, nil))

			if code != "" {
				require.Equal(t, []string{code}, got.codes(), field)
				continue
			}
			require.Empty(t, got.Errors, field)
			for name, value := range at[map[string]any](t, got.Data, "releaseJob") {
				require.True(t, name == "id" || value == nil, "%s is shown: %v", name, value)
			}
		}
	})

	t.Run("LosesItsLeaseWithTheToken", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		a.Submit(t)
		id, token := a.worker(t, "i-1")
		lease := a.lease(t, id, token)
		const beat = `mutation ($i: HeartbeatInput!) { heartbeat(input: $i) { leaseExpiresAt } }`

		wrong := ask(t, a.url, token, beat, fence(lease, map[string]any{"fencingToken": models.NewFencingToken()}))
		malformed := ask(t, a.url, token, beat, fence(lease, map[string]any{"fencingToken": "x"}))
		unknown := ask(t, a.url, token, beat, fence(lease, map[string]any{"attemptId": models.NewAttemptID()}))

		require.Equal(t, []string{"LEASE_LOST"}, wrong.codes())
		require.Equal(t, []string{"LEASE_LOST"}, malformed.codes())
		require.Equal(t, []string{"NOT_FOUND"}, unknown.codes())
	})
}

const jobsChecksum = "AAAAAA=="
