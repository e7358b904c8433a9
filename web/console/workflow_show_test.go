package console

import (
	"testing"

	"github.com/reelay/reelay/web/console/address"
	"github.com/stretchr/testify/require"
)

func TestWorkflowPage(t *testing.T) {
	t.Parallel()

	t.Run("NamesTheNodesThatANodeWaitsFor", func(t *testing.T) {
		t.Parallel()
		b := operator(t)
		film := b.SubmitWorkflow(t, b.Client, "film", "shots.s1", "film")

		page := b.page(t, address.Workflow(film.ID))

		require.Contains(t, page, "1 job must complete first: shots.s1.")
		require.Contains(t, page, "0 of 2")
	})
}
