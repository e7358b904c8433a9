package estimate

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Life is how long a spot worker has lived, and whether it was taken away then. Others ended for another
// reason, or still live: they would have lived longer.
type Life struct {
	Lived time.Duration
	Taken bool
}

// Survival is how long the spot workers of a pool live.
type Survival struct{ steps []survivors }

// survivors is the part of the workers that live longer than a time.
type survivors struct {
	than time.Duration
	part float64
}

// NewestLives is how many lives of a pool count.
const NewestLives = 100

// guessedLives count with those of each pool, so that its first few do not decide alone.
var guessedLives = []Life{{30 * time.Minute, true}, {2 * time.Hour, true}, {8 * time.Hour, true}}

// NewSurvival estimates the survival from lives. It is the product-limit estimate, which assumes
// nothing of how lives are distributed, and uses those that have not ended (Kaplan and Meier,
// Nonparametric Estimation from Incomplete Observations, 1958).
func NewSurvival(lives []Life) Survival {
	all := slices.Concat(guessedLives, lives)
	slices.SortFunc(all, func(a, b Life) int { return cmp.Compare(a.Lived, b.Lived) })
	part, s := 1.0, Survival{}
	for i := 0; i < len(all); {
		at, taken, last := all[i].Lived, 0, i
		for ; last < len(all) && all[last].Lived == at; last++ {
			if all[last].Taken {
				taken++
			}
		}
		if taken > 0 {
			part *= 1 - float64(taken)/float64(len(all)-i)
			s.steps = append(s.steps, survivors{at, part})
		}
		i = last
	}
	return s
}

// Lost returns the probability that a new worker is taken away within a time, from 0 to 1.
func (s Survival) Lost(within time.Duration) float64 {
	i, exact := slices.BinarySearchFunc(s.steps, within, func(step survivors, t time.Duration) int { return cmp.Compare(step.than, t) })
	if exact {
		i++
	}
	if i == 0 {
		return 0
	}
	return 1 - s.steps[i-1].part
}

// LateByLoss returns the probability that a render is late only because it loses its worker once, if
// the worker is lost for certain: from 0 to 1. mean and slow are how long it takes on average and if it
// is slow, room is how long it may take, and loss how much of that the loss takes. Render times are
// taken to be normally distributed, as in [RenderTimes.Margin].
func LateByLoss(mean, slow, room, loss time.Duration) float64 {
	deviation := max(float64(slow-mean)/z99, 1)
	longer := func(than time.Duration) float64 { return math.Erfc(float64(than-mean)/deviation/math.Sqrt2) / 2 }
	return longer(room-loss) - longer(room)
}
