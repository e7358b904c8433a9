package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/models/capacity"
)

// pause is how long a pool boots no worker after a refusal of its provider: first, doubled with
// each refusal in a row, up to most.
type pause struct{ first, most time.Duration }

// pauses has the pause for each class of error. Capacity returns within minutes, but a quota only
// when somebody raises it. Changing the pool ends its pause.
var pauses = map[ErrorClass]pause{
	Transient:  {10 * time.Second, 5 * time.Minute},
	Stockout:   {time.Minute, 15 * time.Minute},
	Quota:      {5 * time.Minute, time.Hour},
	Permission: {5 * time.Minute, time.Hour},
	Invalid:    {5 * time.Minute, time.Hour},
}

// after returns the pause after a refusal that follows this many others in a row.
func (p pause) after(others int) time.Duration {
	wait := p.first
	for range others {
		if wait = min(2*wait, p.most); wait == p.most {
			break
		}
	}
	return wait
}

// growBy returns how many machines a pool may ask for after its provider had all of the n that it
// was asked for. As long as this is limited, it doubles when the limit was reached, as the window of a
// TCP connection does. It is not limited once all machines of the pool are within it.
func growBy(p *capacity.Pool, n int) int {
	switch limit := p.GrowBy; {
	case limit == 0, 2*limit*perMachine(p) >= p.MaxWorkers:
		return 0
	case n < limit:
		return limit
	default:
		return 2 * limit
	}
}

// refusals contains the errors of one creation, by their text.
type refusals map[string]*refusal

type refusal struct {
	err   error
	class ErrorClass
	count int
}

func (r refusals) add(err error) {
	message := text.Clip(text.Printable(err.Error()), 500)
	if r[message] == nil {
		r[message] = &refusal{err: err, class: ClassOf(err)}
	}
	r[message].count++
}

// worst returns the refusal with the longest pause.
func (r refusals) worst() *refusal {
	return slices.MaxFunc(slices.Collect(maps.Values(r)), func(a, b *refusal) int {
		return cmp.Or(cmp.Compare(pauses[a.class].first, pauses[b.class].first), cmp.Compare(a.count, b.count),
			cmp.Compare(a.err.Error(), b.err.Error()))
	})
}

// maxRefusalTexts is how many different messages an error lists.
const maxRefusalTexts = 3

// Error lists the messages, each with its number of machines.
func (r refusals) Error() string {
	var all []string
	for _, message := range slices.SortedFunc(maps.Keys(r), func(a, b string) int {
		return cmp.Or(cmp.Compare(r[b].count, r[a].count), cmp.Compare(a, b))
	}) {
		all = append(all, fmt.Sprintf("%s (%s, %s)", message, r[message].class, text.Count(r[message].count, "machine")))
	}
	if n := len(all); n > maxRefusalTexts {
		all = append(all[:maxRefusalTexts], fmt.Sprintf("and %d other errors", n-maxRefusalTexts))
	}
	return strings.Join(all, "; ")
}

// Unwrap returns the errors.
func (r refusals) Unwrap() []error {
	var all []error
	for _, one := range r {
		all = append(all, one.err)
	}
	return all
}
