// Package bill reads what a cloud or a hosted provider bills, and compares it with what Reelay has. It reads files of any
// length in bounded memory: it keeps a sum for each machine or task, and a hash of each line.
package bill

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/shopspring/decimal"
)

// MaxProblems bounds the broken lines that are listed.
const MaxProblems = 20

// Problem is a line that cannot be read.
type Problem struct {
	Line int    `json:"line"`
	Why  string `json:"why"`
}

// Error implements error.
func (p *Problem) Error() string { return fmt.Sprintf("line %d: %s", p.Line, p.Why) }

// Item is what is billed for a machine or a task.
type Item struct {
	USD   decimal.Decimal
	Lines int
}

// Sums are the sums of a file.
type Sums struct {
	// Items are by the id: that of a machine is the last part of a longer name.
	Items map[string]*Item
	// Lines is how many were read, without the header and empty ones. Each is in one of: Items, Other, Repeated, Outside
	// and Broken.
	Lines int
	// Other is what names no machine or task, or is of another service than Compute Engine.
	Other Item
	// Repeated is how many lines are equal to an earlier one. They are counted once.
	Repeated int
	// Outside is how many lines began before From or from To on.
	Outside int
	// Broken is how many lines cannot be read, and Problems are the first of them.
	Broken   int
	Problems []Problem
	// From and To are the span that was asked for. A zero time is replaced by the first begin, or the last end.
	From, To time.Time
}

// Read sums up a file of a kind: the lines that begin from from until before to. Zero times mean all. It returns an error
// for a file that is none of the kind, in another encoding, or with amounts in another currency than US dollars.
func Read(in io.Reader, kind Kind, from, to time.Time) (*Sums, error) {
	r, err := newRecords(in)
	if err != nil {
		return nil, err
	}
	header, err := r.next()
	if err == io.EOF {
		return nil, errors.New("the file is empty")
	}
	if err != nil {
		return nil, err
	}
	at, dollars, err := kind.find(header)
	if err != nil {
		return nil, err
	}
	s := &Sums{Items: map[string]*Item{}, From: from, To: to}
	read := &reader{Sums: s, at: at, dollars: dollars, comma: r.separator == ';', width: len(header), asked: [2]time.Time{from, to}}
	seed, seen := maphash.MakeSeed(), map[uint64]struct{}{}
	for {
		fields, err := r.next()
		if err == io.EOF {
			return s, nil
		}
		problem, broken := errors.AsType[*Problem](err)
		if err != nil && !broken {
			return nil, err
		}
		s.Lines++
		if !broken {
			sum := maphash.Bytes(seed, r.record)
			if _, again := seen[sum]; again {
				s.Repeated++
				continue
			}
			seen[sum] = struct{}{}
			if err = read.line(fields); err == nil {
				continue
			}
			if errors.Is(err, errCurrency) {
				return nil, fmt.Errorf("line %d: %w", r.begin, err)
			}
			problem = &Problem{r.begin, err.Error()}
		}
		s.Broken++
		if len(s.Problems) < MaxProblems {
			s.Problems = append(s.Problems, *problem)
		}
	}
}

// errCurrency refuses a file: amounts of several currencies have no sum.
var errCurrency = errors.New("another currency than USD: export the bill in US dollars")

// reader adds up lines.
type reader struct {
	*Sums
	at             columns
	dollars, comma bool
	width          int
	asked          [2]time.Time
}

// line adds a line.
func (r *reader) line(fields []string) error {
	if len(fields) != r.width {
		return fmt.Errorf("it has %d fields, and the first line %d", len(fields), r.width)
	}
	if r.at.currency >= 0 && !strings.EqualFold(fields[r.at.currency], "USD") {
		if fields[r.at.currency] != "" || !r.dollars {
			return fmt.Errorf("%.20q is %w", fields[r.at.currency], errCurrency)
		}
	}
	usd, err := amount(fields[r.at.amount], r.comma)
	if err != nil {
		return err
	}
	from, err := moment(fields[r.at.from])
	if err != nil {
		return err
	}
	until := from
	if r.at.to >= 0 && fields[r.at.to] != "" {
		if until, err = moment(fields[r.at.to]); err != nil {
			return err
		}
	}
	if !r.asked[0].IsZero() && from.Before(r.asked[0]) || !r.asked[1].IsZero() && !from.Before(r.asked[1]) {
		r.Outside++
		return nil
	}
	if r.asked[0].IsZero() && (r.From.IsZero() || from.Before(r.From)) {
		r.From = from
	}
	if r.asked[1].IsZero() && until.After(r.To) {
		r.To = until
	}
	id := Name(fields[r.at.id])
	item := &r.Other
	if id != "" && (r.at.service < 0 || strings.EqualFold(fields[r.at.service], "Compute Engine")) {
		if item = r.Items[id]; item == nil {
			item = new(Item)
			r.Items[strings.Clone(id)] = item
		}
	}
	item.USD, item.Lines = item.USD.Add(usd), item.Lines+1
	return nil
}

// Name is the name of a machine or task, without the project and the zone before it.
func Name(id string) string {
	if id = strings.TrimSpace(id); id == "" {
		return ""
	}
	return path.Base(id)
}

var number = regexp.MustCompile(`^-?[0-9]{1,15}(\.[0-9]{1,30})?([eE][-+]?[0-9]{1,2})?$`)

// amount reads a number of dollars. comma means that a comma may stand before the cents.
func amount(given string, comma bool) (decimal.Decimal, error) {
	plain := strings.TrimPrefix(given, "$")
	if comma && !strings.Contains(plain, ".") {
		plain = strings.Replace(plain, ",", ".", 1)
	}
	if !number.MatchString(plain) {
		return decimal.Decimal{}, fmt.Errorf("%.40q is no amount", given)
	}
	return decimal.NewFromString(plain)
}

// layouts are the forms of times in exports.
var layouts = []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999 UTC", "2006-01-02 15:04:05.999999999",
	"2006-01-02 15:04:05.999999999Z07:00",
	"2006-01-02T15:04:05.999999999", "2006-01-02 15:04", time.DateOnly}

func moment(given string) (time.Time, error) {
	for _, layout := range layouts {
		if t, err := time.Parse(layout, given); err == nil && t.Year() > 2000 && t.Before(time.Now().AddDate(0, 0, 2)) {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%.40q is no time such as 2026-10-31T13:00:00Z", given)
}
