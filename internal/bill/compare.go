package bill

import (
	"cmp"
	"maps"
	"slices"

	"github.com/shopspring/decimal"
)

// Own is what Reelay has of a machine or task.
type Own struct {
	// ID is "" if Reelay does not know that of the bill. Then Name says what it is.
	ID, Name string
	// USD is nil if the price is unknown.
	USD *decimal.Decimal
}

// Difference is a machine or task that the bill and Reelay do not have alike.
type Difference struct {
	ID string `json:"id"`
	// BilledUSD is nil if the bill does not have it, and OwnUSD if Reelay has not, or does not know the price.
	BilledUSD *decimal.Decimal `json:"billedUsd"`
	OwnUSD    *decimal.Decimal `json:"ownUsd"`
}

// by is how far the two are apart.
func (d Difference) by() decimal.Decimal {
	var billed, own decimal.Decimal
	if d.BilledUSD != nil {
		billed = *d.BilledUSD
	}
	if d.OwnUSD != nil {
		own = *d.OwnUSD
	}
	return billed.Sub(own).Abs()
}

// Result compares a bill with what Reelay has. Lists are in the order of the amounts, the largest difference first.
type Result struct {
	// Both is how many both have.
	Both int `json:"both"`
	// BilledUSD and OwnUSD are the sums of what each has, whether the other has it or not. OwnUSD leaves out unknown
	// amounts.
	BilledUSD decimal.Decimal `json:"billedUsd"`
	OwnUSD    decimal.Decimal `json:"ownUsd"`
	// Unknown has what only the bill has, and Unbilled what only Reelay has.
	Unknown  []Difference `json:"unknown"`
	Unbilled []Difference `json:"unbilled"`
	// Differing has what differs by more than the tolerance, or has no price.
	Differing []Difference `json:"differing"`
	// Unnamed has what cannot be compared, since Reelay has no id of it that the bill could have. Its ids are names of Reelay.
	Unnamed []Difference `json:"unnamed"`
}

// Agrees reports whether nothing differs by more than the tolerance.
func (r *Result) Agrees() bool {
	return len(r.Unknown)+len(r.Unbilled)+len(r.Differing)+len(r.Unnamed) == 0
}

// DifferenceUSD is how much more the bill has than Reelay.
func (r *Result) DifferenceUSD() decimal.Decimal { return r.BilledUSD.Sub(r.OwnUSD) }

// Compare compares a bill with what Reelay has, whose ids are as those of the bill, see Name. The tolerance is in percent
// of the larger amount. What is billed with 0, or cost nothing, is no difference if the other does not have it.
func Compare(billed map[string]*Item, own []Own, tolerance decimal.Decimal) *Result {
	r := &Result{Unknown: []Difference{}, Unbilled: []Difference{}, Differing: []Difference{}, Unnamed: []Difference{}}
	ours := map[string]*decimal.Decimal{}
	for _, o := range own {
		if o.ID == "" {
			r.Unnamed = append(r.Unnamed, Difference{o.Name, nil, o.USD})
			if o.USD != nil {
				r.OwnUSD = r.OwnUSD.Add(*o.USD)
			}
			continue
		}
		before, again := ours[o.ID]
		switch {
		case !again:
			ours[o.ID] = o.USD
		case before != nil && o.USD != nil:
			ours[o.ID] = new(before.Add(*o.USD))
		default:
			ours[o.ID] = nil
		}
	}
	for _, id := range slices.Sorted(maps.Keys(billed)) {
		usd := billed[id].USD
		r.BilledUSD = r.BilledUSD.Add(usd)
		amount, both := ours[id]
		d := Difference{id, &usd, amount}
		switch {
		case !both && !usd.IsZero():
			r.Unknown = append(r.Unknown, d)
		case both:
			r.Both++
			if amount == nil || d.by().Mul(decimal.NewFromInt(100)).GreaterThan(decimal.Max(usd.Abs(), amount.Abs()).Mul(tolerance)) {
				r.Differing = append(r.Differing, d)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(ours)) {
		amount := ours[id]
		if amount != nil {
			r.OwnUSD = r.OwnUSD.Add(*amount)
		}
		if billed[id] == nil && (amount == nil || !amount.IsZero()) {
			r.Unbilled = append(r.Unbilled, Difference{id, nil, amount})
		}
	}
	for _, list := range [][]Difference{r.Unknown, r.Unbilled, r.Differing, r.Unnamed} {
		slices.SortStableFunc(list, func(a, b Difference) int { return cmp.Or(b.by().Cmp(a.by()), cmp.Compare(a.ID, b.ID)) })
	}
	return r
}
