package bill

import (
	"fmt"
	"strings"
	"unicode"
)

// Kind is a kind of file: how its columns are named.
type Kind struct {
	// Name is what messages call the file.
	name string
	// id, from, to, amount and currency are the names that a column can have, without case, spaces and punctuation, the
	// best first. to and service may be missing.
	id, from, to, amount, currency, service []string
}

var (
	// GCP is Google Cloud's detailed export of billing data, with the names of resources: a table of BigQuery as CSV, or
	// a report of the console.
	GCP = Kind{
		name:     "Google Cloud's detailed export",
		id:       []string{"resourcename", "resourceglobalname", "resource", "instancename", "instanceid", "instance"},
		from:     []string{"usagestarttime", "usagestartdate", "usagestart", "starttime", "startdate"},
		to:       []string{"usageendtime", "usageenddate", "usageend", "endtime", "enddate"},
		amount:   []string{"unroundedcost", "cost", "costusd", "amount"},
		currency: []string{"currency", "currencycode"},
		service:  []string{"servicedescription", "service", "servicename"},
	}
	// Usage is a provider's export of its tasks.
	Usage = Kind{
		name: "an export of a provider's usage",
		id:   []string{"taskid", "task", "jobid", "job", "requestid", "predictionid", "generationid", "id"},
		from: []string{"time", "timestamp", "completedat", "createdat", "created", "date", "datetime", "at"},
		amount: []string{"amount", "amountusd", "cost", "costusd", "price", "priceusd", "total", "totalusd", "charge", "charged", "chargedusd",
			"usd"},
		currency: []string{"currency", "currencycode"},
	}
)

// columns are the indices of a file's columns: -1 for one that is missing.
type columns struct{ id, from, to, amount, currency, service int }

// plain is a name without case, spaces and punctuation: "Cost ($)" is cost.
func plain(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, name)
}

// find finds the columns of a header. dollars means that the name of the amount's column says that it is in US dollars.
func (k Kind) find(header []string) (c columns, dollars bool, err error) {
	at := func(names []string) int {
		for _, name := range names {
			for i, title := range header {
				if plain(title) == name {
					return i
				}
			}
		}
		return -1
	}
	c = columns{at(k.id), at(k.from), at(k.to), at(k.amount), at(k.currency), at(k.service)}
	dollars = c.amount >= 0 && (strings.Contains(header[c.amount], "$") || strings.HasSuffix(plain(header[c.amount]), "usd"))
	for _, needed := range []struct {
		column int
		what   string
		names  []string
	}{{c.id, "the id of a machine or task", k.id}, {c.from, "a time", k.from}, {c.amount, "an amount", k.amount}} {
		if needed.column < 0 {
			return c, false, fmt.Errorf("it has no column with %s: %s has one of %s in its first line", needed.what, k.name,
				strings.Join(needed.names, ", "))
		}
	}
	if c.currency < 0 && !dollars {
		return c, false, fmt.Errorf("it has no column currency, and %q does not say that it is in US dollars", header[c.amount])
	}
	return c, dollars, nil
}
