package estimate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/stretchr/testify/require"
)

// scenario describes a world with that many workers at that load.
type scenario struct {
	name      string
	workers   int
	load      float64
	irregular float64
	mtbf      float64
	tiers     []models.Tier // of the clients, which bring equal loads
	mixed     bool          // half of the workers can run a second model
	capped    bool
}

func (s scenario) world(seed uint64) *world {
	w := &world{
		Rand: rand.New(rand.NewPCG(seed, 7)), ratio: 1.7, irregular: s.irregular, mtbf: s.mtbf, boot: 60,
		times: map[RenderKey]*backlog.RenderTime{}, counted: map[simArrival]float64{},
	}
	kinds := []simKind{simKindOf("preview", "480p", 4, 20), simKindOf("preview", "720p", 8, 60)}
	if s.mixed {
		kinds = append(kinds, simKindOf("film", "1080p", 10, 100))
	}
	mean := 0.0
	for _, k := range kinds {
		mean += k.gpuSeconds * w.ratio / float64(len(kinds))
	}
	for i := range s.workers {
		worker := &simWorker{models: []string{"preview"}, gpu: "l4", speed: 1}
		if s.mixed && i%2 == 0 {
			worker.models, worker.gpu, worker.speed = []string{"film", "preview"}, "h100", 1.5
		}
		w.workers = append(w.workers, worker)
	}
	power := 0.0
	for _, worker := range w.workers {
		power += worker.speed
	}
	if s.mtbf > 0 {
		power *= s.mtbf / (s.mtbf + w.boot)
	}
	const each = 4 // clients of a tier
	for _, tier := range s.tiers {
		for i := range each {
			c := &simClient{
				account: models.AccountID(fmt.Sprintf("acc_%s_%d", tier, i)), tier: tier, kinds: kinds, weight: 1, maxRunning: 1000,
				every: mean * float64(len(s.tiers)*each) / (s.load * power),
			}
			if s.capped {
				c.maxRunning = max(1, s.workers/3)
			}
			w.clients = append(w.clients, c)
		}
	}
	return w
}

var scenarios = []scenario{
	{name: "OneWorker", workers: 1, load: 0.8, irregular: 0.1, tiers: []models.Tier{models.TierPro}},
	{name: "SomeWorkers", workers: 8, load: 0.9, irregular: 0.1, tiers: []models.Tier{models.TierPro}},
	{name: "ManyWorkers", workers: 30, load: 0.95, irregular: 0.2, tiers: []models.Tier{models.TierPro}},
	{name: "IrregularRenders", workers: 8, load: 0.9, irregular: 0.3, tiers: []models.Tier{models.TierPro}},
	{name: "Preemptions", workers: 8, load: 0.85, irregular: 0.1, mtbf: 900, tiers: []models.Tier{models.TierPro}},
	{name: "TwoModels", workers: 12, load: 0.85, irregular: 0.1, mixed: true, tiers: []models.Tier{models.TierPro}},
	{name: "ThreeTiers", workers: 10, load: 0.9, irregular: 0.1, tiers: []models.Tier{models.TierEnterprise, models.TierPro, models.TierFree}},
	{name: "Caps", workers: 9, load: 0.85, irregular: 0.1, capped: true, tiers: []models.Tier{models.TierPro}},
	{name: "AllAtOnce", workers: 12, load: 0.85, irregular: 0.2, mtbf: 1800, mixed: true,
		tiers: []models.Tier{models.TierEnterprise, models.TierPro, models.TierFree}},
}

// worlds is how many worlds are simulated. A world with many workers has enough jobs by
// itself.
func (s scenario) worlds() int {
	if s.workers > 10 && !testrun.Nightly() {
		return 1
	}
	return 3
}

func TestEstimate(t *testing.T) {
	t.Parallel()

	for _, s := range scenarios {
		t.Run("IsAccurateInSteadyStateWith"+s.name, func(t *testing.T) {
			t.Parallel()
			var all world
			for seed := range uint64(s.worlds()) {
				w := s.world(seed)

				w.run(2*3600, 8*3600)

				all.waits = append(all.waits, w.waits...)
				all.completions = append(all.completions, w.completions...)
			}

			median, waited, within, bias := errorsOf(all.waits)
			t.Logf("wait: median error %.1f %% of %d that waited (of %d), %.0f %% within P90, bias %.2f", 100*median, waited, len(all.waits),
				100*within, bias)
			require.Greater(t, waited, 50)
			require.Less(t, median, 0.25)
			require.Greater(t, within, 0.75)
			require.InDelta(t, 1, bias, 0.2)
			median, completed, _, bias := errorsOf(all.completions)
			t.Logf("completion: median error %.1f %% of %d, bias %.2f", 100*median, completed, bias)
			require.Greater(t, completed, 50)
			require.Less(t, median, 0.25)
			require.InDelta(t, 1, bias, 0.2)
		})
	}
}

// errorsOf judges the estimates for which both the estimate and the real time are a second or
// more.
func errorsOf(all []judged) (median float64, n int, within, bias float64) {
	var off []float64
	said, was := 0.0, 0.0
	for _, j := range all {
		if j.was < 1 && j.said < 1 {
			continue
		}
		off = append(off, math.Abs(j.said-j.was)/max(j.was, 1))
		said, was = said+j.said, was+j.was
		if j.was <= j.p90+1 {
			within++
		}
	}
	slices.Sort(off)
	return off[len(off)/2], len(off), within / float64(len(off)), said / was
}
