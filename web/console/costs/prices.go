package costs

import (
	"errors"
	"net/http"
	"strings"

	"github.com/reelay/reelay/features/pricebook"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models/costs"
	"github.com/reelay/reelay/web/console/shell"
)

// pricesView is the page of what hosted providers charge, with a form that adds prices.
type pricesView struct {
	Book          *pricebook.Book
	Source, Error string
	// Changes is what the source would add, once it was checked.
	Changes []*pricebook.Change
}

// adding reports whether importing the source would add anything.
func (v *pricesView) adding() bool {
	for _, c := range v.Changes {
		if c.Added {
			return true
		}
	}
	return false
}

func (c *controller) prices(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	return c.showPrices(w, r, p, http.StatusOK, &pricesView{})
}

func (c *controller) showPrices(w http.ResponseWriter, r *http.Request, p jobs.Principal, status int, v *pricesView) (err error) {
	if v.Book, err = c.Prices.Book(r.Context(), p); err != nil {
		return err
	}
	return shell.Render(w, r, status, pricesPage(v))
}

// importPrices shows what a source would add, and adds it when that is confirmed.
func (c *controller) importPrices(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if err := shell.ReadForm(r); err != nil {
		return err
	}
	v := &pricesView{Source: strings.ReplaceAll(r.PostForm.Get("source"), "\r\n", "\n")}
	confirmed := r.PostForm.Get("confirmed") != ""
	var err error
	v.Changes, err = c.Prices.Import(r.Context(), p, pricebook.File{File: "prices.yaml", Source: v.Source, DryRun: !confirmed})
	var refused *apierror.Error
	switch {
	case errors.As(err, &refused) && (refused.Field == "source" || refused.Code == apierror.CodeConflict):
		v.Error = refused.Message
		return c.showPrices(w, r, p, http.StatusUnprocessableEntity, v)
	case err != nil:
		return err
	case confirmed:
		return c.Done(w, r, "/costs/prices", "The prices are in the book.")
	}
	return c.showPrices(w, r, p, http.StatusOK, v)
}

// rulesOf are the rules of a price in words.
func rulesOf(v *costs.ProviderPrice) (rules []string) {
	for _, r := range v.Rules {
		rules = append(rules, text.ProviderPrice(r.Resolution, r.Audio, r.PerSecondUSD.String(), r.PerCallUSD.String()))
	}
	return rules
}

// holds says when a price holds, in a word.
func (v *pricesView) holds(price *costs.ProviderPrice) string {
	switch {
	case price.Holds(v.Book.Now):
		return "now"
	case price.Since.After(v.Book.Now):
		return "later"
	}
	return "before"
}
