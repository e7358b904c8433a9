package pricebook

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models/costs"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// File is a file of prices to import.
type File struct {
	// File is the file's name, for messages.
	File string
	// Source is the file's text, in YAML or JSON.
	Source string
	// DryRun returns the changes without making them.
	DryRun bool
}

// Change is what importing a price does.
type Change struct {
	// Added is false if the price book has it already.
	Added bool
	Price *costs.ProviderPrice
	// Warning says that no model of the catalogue is the price's; or "".
	Warning string
}

// Import adds the prices of a file, all or none of them. A version that the book has is not changed. It returns
// INVALID_INPUT that lists the file's problems with their lines, and CONFLICT for a version whose time has another price.
// What is in the ledger stays as it was entered, also if a price begins in the past. It is for operators.
func (b *Prices) Import(ctx context.Context, p jobs.Principal, f File) ([]*Change, error) {
	if err := p.RequireOperator(); err != nil {
		return nil, err
	}
	name := filepath.Base(f.File)
	if !text.Valid(name, 1, text.MaxName) {
		return nil, apierror.Invalid("file", "file may have %d printable characters.", text.MaxName)
	}
	wanted, err := read(name, f.Source)
	if err != nil {
		return nil, apierror.Invalid("source", "%s", err)
	}
	models := hosted(b.Catalogue.Current())
	var changes []*Change
	err = jobs.InTx(ctx, b.DB, func(ctx context.Context, tx bun.Tx) error {
		if !f.DryRun {
			if err := costs.LockProviderPrices(ctx, tx); err != nil {
				return err
			}
		}
		known, err := costs.ListProviderPrices(ctx, tx, "", "")
		if err != nil {
			return err
		}
		if changes, err = compare(known, wanted); err != nil {
			return err
		}
		added := lo.Filter(changes, func(c *Change, _ int) bool { return c.Added })
		if len(known)+len(added) > costs.MaxProviderPrices {
			return apierror.Conflict("The price book may have %d prices. It has %d.", costs.MaxProviderPrices, len(known))
		}
		for _, c := range changes {
			if !slices.ContainsFunc(models, func(m *Model) bool { return m.Provider == c.Price.Provider && m.ProviderModel == c.Price.Model }) {
				c.Warning = "No model of the catalogue has this provider and model."
			}
		}
		if f.DryRun || len(added) == 0 {
			return nil
		}
		var named []string
		for _, c := range added {
			if err := costs.InsertProviderPrice(ctx, tx, c.Price); err != nil {
				return err
			}
			named = append(named, fmt.Sprintf("%s %s from %s", c.Price.Provider, c.Price.Model, c.Price.Since.Format(time.RFC3339Nano)))
		}
		return p.Audit(ctx, tx, "importProviderPrices", text.Clip(strings.Join(named, ", "), jobs.MaxTargetRunes),
			jobs.Payload{"prices": lo.Map(added, func(c *Change, _ int) jobs.Payload { return recorded(c.Price) })})
	})
	return changes, apierror.Wrap(err, "import the prices of %s", name)
}

// compare says what becomes of each version.
func compare(known, wanted []*costs.ProviderPrice) (changes []*Change, err error) {
	for _, version := range wanted {
		i := slices.IndexFunc(known, func(k *costs.ProviderPrice) bool { return sameVersion(k, version) })
		switch {
		case i < 0:
			changes = append(changes, &Change{Added: true, Price: version})
		case sameRules(known[i].Rules, version.Rules):
			changes = append(changes, &Change{Price: known[i]})
		default:
			return nil, apierror.Conflict("%s's %s already has another price from %s on. Prices are not changed: write one with a later since.",
				version.Provider, version.Model, version.Since.Format(time.RFC3339Nano))
		}
	}
	return changes, nil
}

// sameRules reports whether two versions have the same rules, in any order.
func sameRules(a, b []costs.PriceRule) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(rule costs.PriceRule) bool { return !slices.ContainsFunc(b, rule.Same) })
}

// recorded is a price as the audit log has it.
func recorded(v *costs.ProviderPrice) jobs.Payload {
	return jobs.Payload{"provider": v.Provider, "model": v.Model, "since": v.Since, "rules": v.Rules}
}
