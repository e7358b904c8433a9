package models_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestHistogram(t *testing.T) {
	t.Parallel()

	t.Run("OfPartsAddsUpToTheQuantilesOfTheWhole", func(t *testing.T) {
		t.Parallel()
		random := rand.New(rand.NewPCG(1, 2))
		var whole models.Histogram
		var exact []float64
		for range 24 {
			var part models.Histogram
			scale := random.Float64() * 100 // each hour is another one: a mean of percentiles would be wrong
			for range 1 + random.IntN(500) {
				seconds := scale * random.ExpFloat64()
				part.Observe(seconds)
				exact = append(exact, max(seconds, 0.001))
			}
			whole.Add(part)
		}
		slices.Sort(exact)

		require.Equal(t, len(exact), whole.Count())
		for _, q := range []float64{0, 0.5, 0.95, 0.99, 1} {
			want := exact[max(int(q*float64(len(exact))+0.999999), 1)-1]
			require.InEpsilon(t, want, *whole.Quantile(q), 0.05, "%v", q)
		}
	})

	t.Run("OfNothingHasNoQuantile", func(t *testing.T) {
		t.Parallel()
		require.Nil(t, models.Histogram(nil).Quantile(0.5))
	})
}
