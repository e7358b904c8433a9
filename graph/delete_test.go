package graph_test

import (
	"testing"

	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

func TestDeleteJob(t *testing.T) {
	t.Parallel()

	const deleteJob = `mutation ($id: ID!) { deleteJob(id: $id) { id status deletedAt prompt params metadata result { id } artifacts { id }
		attempts { status failureReason log { id } } events { edges { node { type payload } } } } }`

	t.Run("KeepsTheRowWithoutPromptAndVideo", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		job := a.Submit(t)
		worker := a.Worker(t, "one")
		_, fence := a.Lease(t, worker)
		video := a.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a video"))
		end, err := a.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &video})
		require.NoError(t, err)

		deleted := at[map[string]any](t, a.client(t, deleteJob, map[string]any{"id": job.ID}), "deleteJob")

		require.Equal(t, "COMPLETED", deleted["status"])
		require.NotEmpty(t, deleted["deletedAt"])
		for _, gone := range []string{"prompt", "metadata", "result"} {
			require.Nil(t, deleted[gone], gone)
		}
		require.Empty(t, deleted["params"])
		require.Empty(t, deleted["artifacts"])
		node := ask(t, a.url, a.Secrets[access.RoleClient], `query ($id: ID!) { node(id: $id) { id } }`, map[string]any{"id": end.Job.ResultID})
		require.Nil(t, node.Data["node"])
	})

	t.Run("IsForTheOwnerOnceTheJobHasEnded", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		job := a.Submit(t)

		for role, code := range map[access.Role]string{access.RoleClient: "CONFLICT", access.RoleWorker: "FORBIDDEN"} {
			refused := ask(t, a.url, a.Secrets[role], deleteJob, map[string]any{"id": job.ID})

			require.Equal(t, []string{code}, refused.codes(), role)
		}
	})
}
