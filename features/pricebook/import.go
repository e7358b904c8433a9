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
	"github.com/reelay/reelay/models/postgres"
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
	// Notes are sentences: what a price that begins in the past does not change, and until when one holds.
	Notes []string
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
		now, err := postgres.Now(ctx, tx)
		if err != nil {
			return err
		}
		for _, c := range changes {
			if err := c.note(ctx, tx, known, wanted, models, now); err != nil {
				return err
			}
			if !slices.ContainsFunc(models, func(m *Model) bool { return m.Provider == c.Price.Provider && m.ProviderModel == c.Price.Model }) {
				c.Warning = fmt.Sprintf("No model of the catalogue has the provider %s and its model %q.", c.Price.Provider, c.Price.Model)
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

// note adds what importing a version does not do. Versions that the book has need no notes: they were imported before.
func (c *Change) note(ctx context.Context, db bun.IDB, known, wanted []*costs.ProviderPrice, models []*Model, now time.Time) error {
	if !c.Added {
		return nil
	}
	for _, other := range slices.Concat(known, wanted) {
		if other.Provider == c.Price.Provider && other.Model == c.Price.Model && other.Since.After(c.Price.Since) &&
			(c.Price.Until.IsZero() || other.Since.Before(c.Price.Until)) {
			c.Price.Until = other.Since
		}
	}
	if !c.Price.Until.IsZero() {
		c.Notes = append(c.Notes, fmt.Sprintf("It holds until %s, when the next version begins.", c.Price.Until.UTC().Format(time.RFC3339)))
	}
	if !c.Price.Since.Before(now) {
		return nil
	}
	var names []string
	for _, m := range models {
		if m.Provider == c.Price.Provider && m.ProviderModel == c.Price.Model {
			names = append(names, m.Name)
		}
	}
	n, err := costs.CountUnpricedFees(ctx, db, c.Price.Provider, names, c.Price.Since, c.Price.Until)
	if err != nil {
		return err
	}
	note := "It begins in the past: fees that were entered do not change."
	if n > 0 {
		note += fmt.Sprintf(" %s of its models since then %s without an amount, and %s so.", text.Count(n, "fee"),
			lo.Ternary(n == 1, "is", "are"), lo.Ternary(n == 1, "stays", "stay"))
	}
	c.Notes = append(c.Notes, note)
	return nil
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
