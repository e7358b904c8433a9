package query

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/joblist"
)

// Search is a parsed search: a job must meet all its conditions. docs/users/search.md
// describes the language.
type Search struct {
	Terms joblist.JobTerms
	// Account is an account's name or id.
	Account string
	// OlderThan and YoungerThan are a job's age; 0 is no condition.
	OlderThan, YoungerThan time.Duration
}

// Note tells a person whose search found nothing where its words were looked up. It is empty
// for a search without words.
func (s *Search) Note() string {
	if len(s.Terms.Words) == 0 {
		return ""
	}
	return "Words match ids, idempotency keys and metadata values. Prompts are encrypted and cannot be searched."
}

const (
	// MaxSearchRunes is the maximum length of a search, in characters.
	MaxSearchRunes = 500
	maxSearchTerms = 20
	maxSearchAge   = 10 * 366 * 24 * time.Hour
	maxSearchWaste = 1e9
	// minBareID is the minimum number of hex digits with which a plain word may be the
	// beginning of an id.
	minBareID = 8
)

// ParseSearch parses a search. It returns INVALID_INPUT with the problem and its place.
func ParseSearch(text string) (*Search, error) {
	if n := utf8.RuneCountInString(text); n > MaxSearchRunes {
		return nil, apierror.Invalid("filter.search", "A search can have at most %d characters; this one has %d.", MaxSearchRunes, n)
	}
	if at := strings.IndexFunc(text, func(r rune) bool {
		return r == unicode.ReplacementChar || !unicode.IsPrint(r) &&
			!unicode.IsSpace(r)
	}); at >= 0 {
		return nil, badSearch(text, at, "this character is invisible or not UTF-8")
	}
	s, p := &Search{}, &searchReader{text: text}
	for n := 0; ; n++ {
		t, ok, err := p.term()
		if err != nil || !ok {
			return s, err
		}
		if n == maxSearchTerms {
			return nil, badSearch(text, t.at, fmt.Sprintf("a search may have %d terms", maxSearchTerms))
		}
		if problem := s.add(t); problem != "" {
			return nil, badSearch(text, t.at, problem)
		}
	}
}

func badSearch(text string, at int, problem string) *apierror.Error {
	n := utf8.RuneCountInString(text[:at]) + 1
	err := apierror.Invalid("filter.search", "The search cannot be read at character %d: %s.", n, problem)
	err.At = n
	return err
}

// searchTerm is key:value,value or a word. A word has no key.
type searchTerm struct {
	at     int
	not    bool
	key    string
	values []string
}

// searchReader parses terms from left to right.
type searchReader struct {
	text string
	at   int
}

func (p *searchReader) term() (t searchTerm, ok bool, err error) {
	p.at = len(p.text) - len(strings.TrimLeftFunc(p.text[p.at:], unicode.IsSpace))
	if t.at = p.at; p.at == len(p.text) {
		return t, false, nil
	}
	if p.text[p.at] == '-' {
		t.not = true
		p.at++
		if next, size := utf8.DecodeRuneInString(p.text[p.at:]); size == 0 || unicode.IsSpace(next) {
			return t, false, badSearch(p.text, t.at,
				"a minus stands right before a key, as in -status:completed; to look for one, put it into quotation marks")
		}
	}
	if name, _, found := strings.Cut(p.text[p.at:], ":"); found && !strings.ContainsAny(name, `",`) &&
		!strings.ContainsFunc(name, unicode.IsSpace) {
		t.key = strings.ToLower(name)
		if t.key == "" {
			return t, false, badSearch(p.text, p.at, "a colon has no key before it: put the word into quotation marks")
		}
		p.at += len(name) + 1
	}
	for {
		value, err := p.value(t.key != "")
		if err != nil {
			return t, false, err
		}
		if value == "" {
			return t, false, badSearch(p.text, t.at, "a value is missing")
		}
		t.values = append(t.values, value)
		if t.key == "" || !strings.HasPrefix(p.text[p.at:], ",") {
			break
		}
		p.at++
	}
	if next, size := utf8.DecodeRuneInString(p.text[p.at:]); size > 0 && !unicode.IsSpace(next) {
		return t, false, badSearch(p.text, p.at, "a space is missing behind the quotation mark")
	}
	return t, true, nil
}

// value parses a value, which may be in quotation marks. In a list a comma ends it.
func (p *searchReader) value(list bool) (string, error) {
	rest := p.text[p.at:]
	if quoted, ok := strings.CutPrefix(rest, `"`); ok {
		value, _, closed := strings.Cut(quoted, `"`)
		if !closed {
			return "", badSearch(p.text, p.at, "the quotation mark is not closed")
		}
		p.at += len(value) + 2
		return value, nil
	}
	end := strings.IndexFunc(rest, func(r rune) bool { return unicode.IsSpace(r) || list && r == ',' })
	if end < 0 {
		end = len(rest)
	}
	p.at += end
	return rest[:end], nil
}

// add adds a term's condition. It returns the problem if the term is not valid.
func (s *Search) add(t searchTerm) (problem string) {
	switch t.key {
	case "status":
		return s.addNames(t, "status", plain(models.JobStatuses))
	case "tier":
		return s.addNames(t, "tier", plain(models.Tiers))
	case "lane":
		return s.addNames(t, "lane", plain(models.Tiers))
	case "class":
		return s.addNames(t, "failure_class", plain(models.FailureClasses))
	case "type", "model":
		s.Terms.Facets = append(s.Terms.Facets, joblist.Facet{Column: t.key, Values: t.values, Prefix: true, Not: t.not})
		return ""
	case "user":
		s.Terms.Facets = append(s.Terms.Facets, joblist.Facet{Column: "user_id", Values: t.values, Not: t.not})
		return ""
	}
	if !t.not && t.key == "pool" {
		s.Terms.Pools = append(s.Terms.Pools, t.values...)
		return ""
	}
	if !t.not && t.key == "zone" {
		s.Terms.Zones = append(s.Terms.Zones, t.values...)
		return ""
	}
	switch {
	case t.not && t.key == "":
		return "only " + keyNames(true) + " can have a minus: a word that begins with one goes into quotation marks"
	case t.not:
		return fmt.Sprintf("%s cannot have a minus: %s can", text.Clip(t.key, 32), keyNames(true))
	case len(t.values) > 1:
		return fmt.Sprintf("%s takes one value", text.Clip(t.key, 32))
	}
	return s.addOne(t.key, t.values[0])
}

func (s *Search) addOne(key, value string) (problem string) {
	switch key {
	case "":
		s.Terms.Words = append(s.Terms.Words, searchWord(value))
	case "account":
		if s.Account != "" {
			return "account can be said once"
		}
		s.Account = value
	case "worker":
		if s.Terms.WorkerID != "" {
			return "worker can be said once"
		}
		if s.Terms.WorkerID = models.WorkerID(strings.ToLower(value)); !s.Terms.WorkerID.Valid() {
			return "worker takes the id of one: wrk_…"
		}
	case "bulk":
		if s.Terms.BulkID = models.BulkID(strings.ToLower(value)); !s.Terms.BulkID.Valid() {
			return "bulk takes the id of a bulk operation: bulk_…"
		}
	case "schedule":
		if s.Terms.ScheduleID = models.ScheduleID(strings.ToLower(value)); !s.Terms.ScheduleID.Valid() {
			return "schedule takes the id of a schedule: sch_…"
		}
	case "workflow":
		if s.Terms.WorkflowID = models.WorkflowID(strings.ToLower(value)); !s.Terms.WorkflowID.Valid() {
			return "workflow takes the id of a workflow: wfl_…"
		}
	case "meta":
		return s.addMetadata(value)
	case "checkpoint":
		older, younger, problem := readAge(value, "checkpoint")
		s.Terms.CheckpointOver = max(s.Terms.CheckpointOver, older)
		if under := s.Terms.CheckpointUnder; younger > 0 && (under == 0 || younger < under) {
			s.Terms.CheckpointUnder = younger
		}
		return problem
	case "age":
		return s.addAge(value)
	case "waste":
		return s.addWaste(value)
	default:
		return fmt.Sprintf("there is no key %q; the keys are %s, and a word with a colon goes into quotation marks", text.Clip(key, 32),
			keyNames(false))
	}
	return ""
}

func plain[T ~string](names []T) []string {
	texts := make([]string, len(names))
	for i, name := range names {
		texts[i] = string(name)
	}
	return texts
}

func (s *Search) addNames(t searchTerm, column string, known []string) (problem string) {
	names := make([]string, len(t.values))
	for i, value := range t.values {
		if names[i] = strings.ToUpper(value); !slices.Contains(known, names[i]) {
			return fmt.Sprintf("there is no %s %q; there are %s", t.key, text.Clip(value, 32), strings.ToLower(strings.Join(known, ", ")))
		}
	}
	s.Terms.Facets = append(s.Terms.Facets, joblist.Facet{Column: column, Values: names, Not: t.not})
	return ""
}

var ageUnits = map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour, 'w': 7 * 24 * time.Hour}

func (s *Search) addAge(value string) (problem string) {
	older, younger, problem := readAge(value, "age")
	s.OlderThan = max(s.OlderThan, older)
	if younger > 0 && (s.YoungerThan == 0 || younger < s.YoungerThan) {
		s.YoungerThan = younger
	}
	return problem
}

// readAge reads >1h as older, and <1h as younger. The other is 0.
func readAge(value, key string) (older, younger time.Duration, problem string) {
	problem = key + " takes > or < and a whole number of s, m, h, d or w, as in " + key + ":>1h, and ten years at most"
	if len(value) < 3 {
		return 0, 0, problem
	}
	unit := ageUnits[value[len(value)-1]]
	n, err := strconv.ParseUint(value[1:len(value)-1], 10, 32)
	if err != nil || unit == 0 || n == 0 || n > uint64(maxSearchAge/unit) {
		return 0, 0, problem
	}
	switch age := time.Duration(n) * unit; value[0] {
	case '>':
		return age, 0, ""
	case '<':
		return 0, age, ""
	}
	return 0, 0, problem
}

func (s *Search) addMetadata(value string) (problem string) {
	name, text, found := strings.Cut(value, "=")
	if n := utf8.RuneCountInString(text); !found || name == "" || n == 0 || n > 200 {
		return "meta takes a field of the metadata and its value, as in meta:campaign=autumn"
	}
	s.Terms.Words = append(s.Terms.Words, joblist.Word{Text: text})
	s.Terms.Metadata = append(s.Terms.Metadata, joblist.MetadataField{Key: name, Value: text})
	return ""
}

func (s *Search) addWaste(value string) (problem string) {
	seconds, err := strconv.ParseFloat(strings.TrimPrefix(value, ">"), 64)
	if err != nil || value[0] != '>' || !(seconds >= 0 && seconds <= maxSearchWaste) {
		return "waste takes > and a number of GPU seconds, as in waste:>60"
	}
	if s.Terms.WasteOver == nil || seconds > *s.Terms.WasteOver {
		s.Terms.WasteOver = &seconds
	}
	return ""
}

// searchWord returns what a word can match: the beginning of an id if it has that prefix or
// could be one, else a key or a value of metadata.
func searchWord(text string) joblist.Word {
	lower := strings.ToLower(text)
	for _, kind := range []string{"job_", "video_"} {
		if digits, ok := strings.CutPrefix(lower, kind); ok {
			if from, to, ok := idRange(digits); ok {
				return joblist.Word{From: from, To: to}
			}
		}
	}
	word := joblist.Word{Text: text}
	if from, to, ok := idRange(lower); ok && len(lower) >= minBareID {
		word.From, word.To = from, to
	}
	return word
}

// idRange returns the smallest and the largest id of a job that begin with digits.
func idRange(digits string) (from, to models.JobID, ok bool) {
	low, high, ok := uuidRange(digits)
	return models.JobID("job_" + low), models.JobID("job_" + high), ok
}

// uuidRange returns the smallest and the largest UUID that begin with digits: hex, with a UUID's
// hyphens or without.
func uuidRange(digits string) (from, to string, ok bool) {
	const hyphens = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
	written := strings.Contains(digits, "-")
	if written && len(digits) > len(hyphens) || !written && len(digits) > 32 {
		return "", "", false
	}
	for i := range len(digits) {
		hex := digits[i] >= '0' && digits[i] <= '9' || digits[i] >= 'a' && digits[i] <= 'f'
		if written && hyphens[i] == '-' != (digits[i] == '-') || !hex && digits[i] != '-' {
			return "", "", false
		}
	}
	bare := strings.ReplaceAll(digits, "-", "")
	fill := func(rest string) string {
		return uuid.MustParse(bare + strings.Repeat(rest, 32-len(bare))).String()
	}
	return fill("0"), fill("f"), true
}
