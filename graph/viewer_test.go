package graph_test

import (
	"fmt"
	"testing"

	"github.com/reelay/reelay/graph"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

// ownMutations are calls of the mutations in ownActs.
var ownMutations = map[string]string{
	"submitJob":                  `(input: {model: "testcard", prompt: "x"}) { __typename }`,
	"submitJobs":                 `(inputs: [{model: "testcard", prompt: "x"}]) { __typename }`,
	"submitTakes":                `(input: {model: "testcard", prompt: "x", draft: {steps: 1}}) { __typename }`,
	"requestInputUpload":         `(contentType: "image/png", sizeBytes: 9, checksum: "AAAAAA==") { __typename }`,
	"createWebhookEndpoint":      `(url: "https://example.com/x") { __typename }`,
	"rotateWebhookSecret":        `(id: "whk_0193a7b0-0000-7000-8000-000000000001") { __typename }`,
	"rotateAccountWebhookSecret": ``,
}

func TestViewer(t *testing.T) {
	t.Parallel()

	t.Run("ReadsWhatAnOperatorReads", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		job := a.Submit(t)

		data := a.as(t, access.RoleViewer, fmt.Sprintf(`{
			viewer { role }
			job(id: %q) { prompt account { name } }
			node(id: %q) { id }
			jobs { totalCount edges { node { id } } }
			queues { tier } workers { edges { node { id } } } pools { id } models { name }
			deadLetters { totalCount } deadLetterGroups { count } bulkOperations { edges { node { id } } }
			accounts { edges { node { name } } } webhookEndpoints(accountId: %q) { url } webhookDeliveries { edges { node { id } } }
			draftUsage { __typename } costs(by: ACCOUNT) { machines { class } }
		}`, job.ID, a.Account.ID, a.Account.ID), nil)

		require.Equal(t, "VIEWER", at[string](t, data, "viewer", "role"))
		require.Equal(t, "a lighthouse in the fog", at[string](t, data, "job", "prompt"))
		require.InEpsilon(t, 1, at[float64](t, data, "jobs", "totalCount"), 0)
	})

	t.Run("ChangesNothing", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		before := a.Count(t, "audit_log")

		for _, field := range graph.NewExecutableSchema(graph.Config{}).Schema().Mutation.Fields {
			if role := field.Directives.ForName("auth").Arguments.ForName("role"); role != nil && role.Value.Raw == "WORKER" {
				continue
			}
			if call, own := ownMutations[field.Name]; own {
				got := ask(t, a.url, a.Secrets[access.RoleViewer], "mutation { "+field.Name+call+" }", nil)
				require.Equal(t, []string{"FORBIDDEN"}, got.codes(), field.Name)
			}
		}
		for _, mutation := range []string{"pauseQueue", "cancelJob", "retryJob", "deleteJob", "setJobTier", "startBulkOperation", "createPool",
			"updateAccount", "deleteAccount", "createApiKey"} {
			got := ask(t, a.url, a.Secrets[access.RoleViewer], "mutation { "+mutation+acts[mutation](t, a)+" }", nil)
			require.Equal(t, []string{"FORBIDDEN"}, got.codes(), mutation)
		}

		require.Equal(t, before, a.Count(t, "audit_log"))
	})
}
