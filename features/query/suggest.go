package query

import (
	"context"
	"fmt"
	"strings"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
)

// Suggestion completes a term of a search.
type Suggestion struct {
	// Text replaces what was typed, Help explains it.
	Text string `json:"text"`
	Help string `json:"help"`
}

const (
	// maxSuggestions bounds what one call returns.
	maxSuggestions = 12
	// maxSuggestRows is how many workers and accounts are looked at, the newest ones.
	maxSuggestRows = 200
)

// Suggest completes the term that somebody types: the name of a key, or a value of one. It
// returns nothing for values that cannot be listed, such as ages.
func (r *Jobs) Suggest(ctx context.Context, p jobs.Principal, term string) ([]Suggestion, error) {
	if err := p.RequireViewer(); err != nil {
		return nil, err
	}
	minus := ""
	if rest, ok := strings.CutPrefix(term, "-"); ok {
		minus, term = "-", rest
	}
	key, value, found := strings.Cut(term, ":")
	if !found {
		return suggestKeys(minus, strings.ToLower(term)), nil
	}
	before, last := "", value
	if at := strings.LastIndex(value, ","); at >= 0 {
		before, last = value[:at+1], value[at+1:]
	}
	values, err := r.searchValues(ctx, strings.ToLower(key))
	if err != nil {
		return nil, err
	}
	some := []Suggestion{}
	for _, v := range values {
		if len(some) < maxSuggestions && strings.Contains(strings.ToLower(v.Text), strings.ToLower(strings.Trim(last, `"`))) {
			text := v.Text
			if strings.ContainsAny(text, " ,:") {
				text = `"` + text + `"`
			}
			some = append(some, Suggestion{minus + key + ":" + before + text, v.Help})
		}
	}
	return some, nil
}

func suggestKeys(minus, typed string) []Suggestion {
	some := []Suggestion{}
	for _, key := range SearchKeys {
		if strings.HasPrefix(key.Name, typed) && (minus == "" || key.Many) && len(some) < maxSuggestions {
			some = append(some, Suggestion{minus + key.Name + ":", key.What})
		}
	}
	return some
}

// searchValues lists the values of a key, as far as they can be listed.
func (r *Jobs) searchValues(ctx context.Context, key string) ([]Suggestion, error) {
	switch key {
	case "status":
		return lower(models.JobStatuses), nil
	case "tier", "lane":
		return lower(models.Tiers), nil
	case "class":
		return lower(models.FailureClasses), nil
	case "model":
		var all []Suggestion
		for _, m := range r.catalogue.Current().Models() {
			all = append(all, Suggestion{Text: m.Name})
		}
		return all, nil
	case "age", "checkpoint":
		return []Suggestion{{"<1h", "less than an hour"}, {"<24h", "less than a day"}, {"<7d", "less than a week"}, {">1h", "more than an hour"},
			{">24h", "more than a day"}}, nil
	case "worker", "pool", "zone":
		return r.fleetValues(ctx, key)
	case "account":
		accounts, err := models.ListAccounts(ctx, r.db, "", maxSuggestRows)
		var all []Suggestion
		for _, a := range accounts {
			all = append(all, Suggestion{a.Name, string(a.ID)})
		}
		return all, apierror.Wrap(err, "suggest accounts")
	}
	return nil, nil
}

func (r *Jobs) fleetValues(ctx context.Context, key string) ([]Suggestion, error) {
	var all []Suggestion
	if key == "pool" {
		pools, err := capacity.ListPools(ctx, r.db, capacity.NoPoolLock)
		for _, pool := range pools {
			all = append(all, Suggestion{pool.Name, pool.Provider})
		}
		return all, apierror.Wrap(err, "suggest pools")
	}
	workers, err := models.ListWorkers(ctx, r.db, models.WorkerFilter{}, "", maxSuggestRows)
	if err != nil {
		return nil, fmt.Errorf("suggest workers: %w", err)
	}
	seen := map[string]bool{}
	for _, w := range workers {
		s := Suggestion{string(w.ID), w.ProviderInstanceID}
		if key == "zone" {
			s = Suggestion{Text: w.Zone}
		}
		if s.Text != "" && !seen[s.Text] {
			seen[s.Text] = true
			all = append(all, s)
		}
	}
	return all, nil
}

func lower[T ~string](names []T) []Suggestion {
	all := make([]Suggestion, len(names))
	for i, name := range names {
		all[i].Text = strings.ToLower(string(name))
	}
	return all
}
