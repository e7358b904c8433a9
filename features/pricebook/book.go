package pricebook

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/hostedengine"
	"github.com/reelay/reelay/internal/provider"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/models/costs"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// Prices reads and writes the price book.
type Prices struct {
	DB        *bun.DB
	Catalogue *catalogue.Catalogue
}

// Model is a model of the catalogue that a hosted provider renders.
type Model struct {
	// Name is that of Reelay, and ProviderModel the name in the price book.
	Name, Provider, ProviderModel string
	// Price is the version that holds now; nil if the price is unknown.
	Price *costs.ProviderPrice
}

// Problem says what follows from an unknown price, and what to do; "" if the price is known.
func (m *Model) Problem() string {
	if m.Price != nil {
		return ""
	}
	return fmt.Sprintf("The price of %s's %s is unknown, and so is what the jobs of %s cost. Import it with `reelay prices import`.",
		provider.Find(m.Provider).Title, m.ProviderModel, m.Name)
}

// Book is the price book.
type Book struct {
	// Models are those of the catalogue that hosted providers render, those without a price first.
	Models []*Model
	// Prices are all versions, in the order of providers and models, the newest of each first.
	Prices []*costs.ProviderPrice
	// Now is PostgreSQL's clock, by which prices hold.
	Now time.Time
}

// Book returns the price book. It is for operators and viewers.
func (b *Prices) Book(ctx context.Context, p jobs.Principal) (*Book, error) {
	if err := p.RequireViewer(); err != nil {
		return nil, err
	}
	book := &Book{}
	var err error
	if book.Now, err = postgres.Now(ctx, b.DB); err != nil {
		return nil, apierror.Wrap(err, "read the clock")
	}
	if book.Prices, err = costs.ListProviderPrices(ctx, b.DB, "", ""); err != nil {
		return nil, apierror.Wrap(err, "read the price book")
	}
	for _, m := range hosted(b.Catalogue.Current()) {
		if i := slices.IndexFunc(book.Prices, func(v *costs.ProviderPrice) bool {
			return v.Provider == m.Provider && v.Model == m.ProviderModel && v.Holds(book.Now)
		}); i >= 0 {
			m.Price = book.Prices[i]
		}
		book.Models = append(book.Models, m)
	}
	slices.SortStableFunc(book.Models, func(a, b *Model) int {
		switch {
		case (a.Price == nil) == (b.Price == nil):
			return 0
		case a.Price == nil:
			return -1
		}
		return 1
	})
	return book, nil
}

// hosted returns the models that hosted providers render, in the order of the catalogue.
func hosted(known *catalogue.Snapshot) (all []*Model) {
	for _, m := range known.Models() {
		adapter := provider.Find(m.Runtime)
		if adapter == nil {
			continue
		}
		settings, err := hostedengine.Parse(adapter, m.Settings, nil)
		if err != nil {
			continue // the catalogue says what is wrong
		}
		all = append(all, &Model{Name: m.Name, Provider: adapter.Name, ProviderModel: settings.PricedAs(m.Name)})
	}
	return all
}
