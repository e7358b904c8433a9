package prices

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/reelay/reelay/internal/strictjson"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
)

const (
	// maxBytes and maxEntries bound what a source says.
	maxBytes   = 1 << 20
	maxEntries = 10_000
	// maxPrice is the highest price per hour, in US dollars.
	maxPrice = 10_000
	// maxSkew is how far ahead of our clock a source's may be.
	maxSkew = 5 * time.Minute
	// maxAhead bounds the hours that are known ahead, and maxSteps how many prices of a pool.
	maxAhead = 7 * 24 * time.Hour
	maxSteps = 7 * 24
)

// document is what a source says.
type document struct {
	at      time.Time
	entries []entry
}

// entry is a price of the pools that match.
type entry struct {
	selector
	from time.Time // zero: it holds already
	usd  float64
}

// selector matches pools. What is empty matches all.
type selector struct {
	Pool          string               `json:"pool"`
	Provider      string               `json:"provider"`
	Region        string               `json:"region"`
	Zone          string               `json:"zone"`
	GPUType       string               `json:"gpuType"`
	MachineType   string               `json:"machineType"`
	CapacityClass models.CapacityClass `json:"capacityClass"`
}

// written is a document as JSON.
type written struct {
	At     string `json:"at"`
	Prices []struct {
		selector
		PricePerHourUSD *float64 `json:"pricePerHourUsd"`
		From            string   `json:"from"`
	} `json:"prices"`
}

// parse reads a document. mayOmitAt allows one without a time. All of it is refused if any part
// is wrong.
func parse(data []byte, mayOmitAt bool) (*document, error) {
	if len(data) > maxBytes {
		return nil, fmt.Errorf("it has more than %d bytes", maxBytes)
	}
	if _, err := strictjson.Read("it", data, maxBytes); err != nil {
		return nil, err
	}
	var w written
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&w)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return nil, errors.New(text.WrongType("", wrong))
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("it is not an object with at and prices: %s", text.Clip(text.Printable(err.Error()), 200))
	}
	d := &document{}
	if w.At == "" && !mayOmitAt {
		return nil, errors.New("at, the time of the prices, is missing")
	}
	if w.At != "" {
		if d.at, err = text.ParseTime(w.At); err != nil {
			return nil, fmt.Errorf("at is %q: it must be a time such as 2026-01-31T12:00:00Z", text.Clip(text.Printable(w.At), 64))
		}
	}
	if n := len(w.Prices); n == 0 || n > maxEntries {
		return nil, fmt.Errorf("prices must have 1 to %d entries; it has %d", maxEntries, n)
	}
	return d, d.read(w)
}

func (d *document) read(w written) error {
	type key struct {
		selector
		from time.Time
	}
	seen := map[key]int{}
	for i, p := range w.Prices {
		e := entry{selector: p.selector}
		var err error
		switch {
		case p.Pool == "" && p.GPUType == "":
			return fmt.Errorf("prices[%d] must have a gpuType or a pool", i)
		case p.CapacityClass != "" && p.CapacityClass != models.CapacitySpot && p.CapacityClass != models.CapacityOnDemand:
			return fmt.Errorf("prices[%d].capacityClass must be SPOT or ON_DEMAND", i)
		case p.PricePerHourUSD == nil || *p.PricePerHourUSD < 0 || *p.PricePerHourUSD > maxPrice:
			return fmt.Errorf("prices[%d].pricePerHourUsd must be from 0 to %d", i, maxPrice)
		case p.From != "":
			if e.from, err = text.ParseTime(p.From); err != nil {
				return fmt.Errorf("prices[%d].from is %q: it must be a time such as 2026-01-31T12:00:00Z", i, text.Clip(text.Printable(p.From), 64))
			}
		}
		e.usd = *p.PricePerHourUSD
		if first, again := seen[key{e.selector, e.from}]; again {
			return fmt.Errorf("prices[%d] is for the same machines and time as prices[%d]", i, first)
		}
		seen[key{e.selector, e.from}] = i
		d.entries = append(d.entries, e)
	}
	return nil
}

// stepsOf returns the prices of a pool, in order. Of the entries that match, those that say the most
// of the pool count; then those of the zone that the pool tries first; then the dearest.
func (d *document) stepsOf(pool *capacity.Pool, now time.Time) []capacity.PriceStep {
	var best []entry
	for _, e := range d.entries {
		if !e.matches(pool) || e.from.After(now.Add(maxAhead)) {
			continue
		}
		if len(best) > 0 {
			switch order := e.compare(best[0].selector, pool); {
			case order > 0:
				best = nil
			case order < 0:
				continue
			}
		}
		best = append(best, e)
	}
	slices.SortStableFunc(best, func(a, b entry) int { return cmp.Or(a.from.Compare(b.from), cmp.Compare(b.usd, a.usd)) })
	var steps []capacity.PriceStep
	for _, e := range best {
		if n := len(steps); n > 0 && steps[n-1].From.Equal(e.from) {
			continue
		}
		steps = append(steps, capacity.PriceStep{From: e.from, PricePerHourUSD: e.usd})
	}
	return steps
}

func (s selector) matches(pool *capacity.Pool) bool {
	is := func(wanted, has string) bool { return wanted == "" || wanted == has }
	return is(s.Pool, pool.Name) && is(s.Provider, pool.Provider) && is(s.Region, pool.Region) && is(s.GPUType, pool.GPUType) &&
		is(s.MachineType, pool.MachineType) && is(string(s.CapacityClass), string(pool.CapacityClass)) &&
		(s.Zone == "" || slices.Contains(pool.Zones, s.Zone))
}

// compare orders two selectors that match a pool, the closer one last.
func (s selector) compare(other selector, pool *capacity.Pool) int {
	return cmp.Or(cmp.Compare(s.says(), other.says()), cmp.Compare(slices.Index(pool.Zones, other.Zone), slices.Index(pool.Zones, s.Zone)))
}

// says is of how much the selector speaks. Its pool says more than all the rest.
func (s selector) says() int {
	n := 0
	for _, field := range []string{s.Provider, s.Region, s.Zone, s.GPUType, s.MachineType, string(s.CapacityClass)} {
		if field != "" {
			n++
		}
	}
	if s.Pool != "" {
		n += 10
	}
	return n
}
