package metrics

import (
	"context"
	"errors"
	"testing"

	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestDraftUsage(t *testing.T) {
	t.Parallel()

	known := New(Sources{Queues: none, Drafts: func(context.Context) (models.DraftUsage, error) {
		return models.DraftUsage{Continued: models.DraftSum{Drafts: 1, GPUSeconds: 2.5}, Discarded: models.DraftSum{Drafts: 7, GPUSeconds: 17.5}},
			nil
	}})
	unknown := New(Sources{Queues: none, Drafts: func(context.Context) (models.DraftUsage, error) {
		return models.DraftUsage{},
			errors.New("down")
	}})

	require.ElementsMatch(t, []string{
		`reelay_drafts{outcome="continued"} 1`, `reelay_drafts{outcome="discarded"} 7`, `reelay_drafts{outcome="undecided"} 0`,
		`reelay_draft_gpu_seconds{outcome="continued"} 2.5`, `reelay_draft_gpu_seconds{outcome="discarded"} 17.5`,
		`reelay_draft_gpu_seconds{outcome="undecided"} 0`,
	}, scrape(t, known))
	require.Empty(t, scrape(t, unknown), "unknown is not 0")
}
