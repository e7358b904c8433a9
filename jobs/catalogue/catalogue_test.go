package catalogue_test

import (
	"testing"

	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/stretchr/testify/require"
)

func TestLoadCatalogue(t *testing.T) {
	t.Parallel()

	t.Run("HasModelsForMeasurementsOnlyIfAsked", func(t *testing.T) {
		t.Parallel()

		usual, err := catalogue.Load()
		require.NoError(t, err)
		measured, err := catalogue.Load(catalogue.BenchModels)
		require.NoError(t, err)

		_, err = usual.Model("bench.noop")
		require.ErrorContains(t, err, "There is no model of that name")
		noop, err := measured.Model("bench.noop")
		require.NoError(t, err)
		require.False(t, noop.RequiresVideo)
		require.False(t, noop.RequiresPrompt)
	})

	t.Run("RefusesASetThatIsNotThere", func(t *testing.T) {
		t.Parallel()

		_, err := catalogue.Load("nothing")

		require.ErrorContains(t, err, "read the model catalogue")
	})
}
