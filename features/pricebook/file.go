package pricebook

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/provider"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/internal/yamlfile"
	"github.com/reelay/reelay/models/costs"
	"github.com/samber/lo"
	"github.com/shopspring/decimal"
)

const (
	// currency is that of all amounts.
	currency = "USD"
	// maxVersions and maxRules bound a file, and a version.
	maxVersions, maxRules = 500, 50
	// decimals is how many digits an amount may have after the point.
	decimals = 10
)

// maxUSD is the highest price.
var maxUSD = decimal.NewFromInt(1_000_000)

// document is a file of prices.
type document struct {
	Currency string  `yaml:"currency"`
	Prices   []entry `yaml:"prices"`
}

// entry is a version of the price of a model. Amounts and times are texts, so that they stay as they are written.
type entry struct {
	Provider string `yaml:"provider"`
	Model    string `yaml:"model"`
	Since    string `yaml:"since"`
	Rules    []rule `yaml:"rules"`
}

type rule struct {
	Resolution   string `yaml:"resolution"`
	Audio        *bool  `yaml:"audio"`
	PerSecondUSD string `yaml:"perSecondUsd"`
	PerCallUSD   string `yaml:"perCallUsd"`
}

// read reads and checks a file of prices. Its error lists the problems with their lines.
func read(name, source string) ([]*costs.ProviderPrice, error) {
	var found document
	file, err := yamlfile.Read(name, "prices", []byte(source), &found)
	if err != nil {
		return nil, err
	}
	if found.Currency != "" && found.Currency != currency {
		file.Problem("$.currency", "the currency is %.20q: prices are in %s. Convert them", found.Currency, currency)
	}
	if n := len(found.Prices); n == 0 || n > maxVersions {
		return nil, fmt.Errorf("%s: the file must have 1 to %d prices; it has %d", name, maxVersions, n)
	}
	var all []*costs.ProviderPrice
	for i, entry := range found.Prices {
		place := fmt.Sprintf("$.prices[%d]", i)
		version := entry.check(func(field, format string, args ...any) { file.Problem(place+field, format, args...) })
		if slices.ContainsFunc(all, func(o *costs.ProviderPrice) bool { return sameVersion(o, version) }) {
			file.Problem(place+".since", "the file has two prices of %s's %s from the same time: write one, or give the later one a later since",
				version.Provider, version.Model)
		}
		all = append(all, version)
	}
	return all, file.Err()
}

// sameVersion reports whether two versions are of one model and time.
func sameVersion(a, b *costs.ProviderPrice) bool {
	return a.Provider == b.Provider && a.Model == b.Model && a.Since.Equal(b.Since)
}

var (
	providerNames = lo.Map(provider.All, func(a *provider.Adapter, _ int) string { return a.Name })
	validWord     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]*$`)
	plainAmount   = regexp.MustCompile(`^[0-9]{1,9}(\.[0-9]{1,40})?$`)
	// earliest and latest bound since.
	earliest = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	latest   = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
)

// check returns the version that an entry describes, and tells its problems by field.
func (e *entry) check(wrong func(field, format string, args ...any)) *costs.ProviderPrice {
	version := &costs.ProviderPrice{Provider: e.Provider, Model: e.Model}
	if !slices.Contains(providerNames, e.Provider) {
		wrong(".provider", "there is no provider %.40q: it must be one of %s", e.Provider, strings.Join(providerNames, ", "))
	}
	if len(e.Model) > 200 || !validWord.MatchString(e.Model) {
		wrong(".model", "model must be the provider's name of the model, as settings.model has it: 1 to 200 letters, digits and . _ : / -")
	}
	since, err := time.Parse(time.RFC3339Nano, e.Since)
	if err != nil {
		since, err = time.Parse(time.DateOnly, e.Since)
	}
	version.Since = since.UTC().Truncate(time.Microsecond)
	if err != nil || since.Before(earliest) || !since.Before(latest) {
		wrong(".since", "since must be when the price begins, from 2000 to 2099, such as 2027-01-31T00:00:00Z, or a day in UTC")
	}
	if n := len(e.Rules); n == 0 || n > maxRules {
		wrong(".rules", "a price must have 1 to %d rules; it has %d", maxRules, n)
		return version
	}
	for i, r := range e.Rules {
		of := r.check(func(field, format string, args ...any) { wrong(fmt.Sprintf(".rules[%d]%s", i, field), format, args...) })
		if slices.ContainsFunc(version.Rules, of.Overlaps) {
			wrong(fmt.Sprintf(".rules[%d]", i), "two rules are for the same resolution and audio: remove one")
		}
		version.Rules = append(version.Rules, of)
	}
	return version
}

// check returns the rule, and tells its problems by field.
func (r *rule) check(wrong func(field, format string, args ...any)) costs.PriceRule {
	of := costs.PriceRule{Resolution: strings.ToLower(r.Resolution), Audio: r.Audio}
	if r.Resolution != "" && (len(r.Resolution) > 32 || !validWord.MatchString(r.Resolution)) {
		wrong(".resolution", "resolution must be as requests have it, such as 720p: up to 32 letters, digits and . _ : / -")
	}
	if r.PerSecondUSD == "" && r.PerCallUSD == "" {
		wrong("", "the rule has no price: write perSecondUsd, perCallUsd or both; 0 means that it is free")
	}
	for _, amount := range []struct {
		field, text string
		to          *decimal.Decimal
	}{{"perSecondUsd", r.PerSecondUSD, &of.PerSecondUSD}, {"perCallUsd", r.PerCallUSD, &of.PerCallUSD}} {
		if amount.text == "" {
			continue
		}
		usd, problem := parseUSD(amount.text)
		if problem != "" {
			wrong("."+amount.field, "%s is %s: %s", amount.field, text.Clip(text.Printable(amount.text), 40), problem)
		}
		*amount.to = usd
	}
	return of
}

// parseUSD reads an amount as it is written, and returns what is wrong with it, or "". It takes no exponent: a few digits
// of one make a number that fills the memory.
func parseUSD(written string) (decimal.Decimal, string) {
	if !plainAmount.MatchString(written) {
		return decimal.Zero, "a price must be a number of US dollars from 0 to 1,000,000, such as 0.35"
	}
	usd, err := decimal.NewFromString(written)
	switch {
	case err != nil || usd.GreaterThan(maxUSD):
		return decimal.Zero, "a price must be from 0 to 1,000,000 US dollars"
	case !usd.Equal(usd.Truncate(decimals)):
		return decimal.Zero, fmt.Sprintf("a price may have %d digits after the point: round it", decimals)
	}
	return usd, ""
}
