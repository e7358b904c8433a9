// Package licences finds the licences of all third-party parts of a release: the Go modules
// that are linked into its programs, and the npm packages that the console embeds.
package licences

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// Part is a Go module or an npm package that is not ours.
type Part struct {
	Name, Version string
	// Licences are SPDX identifiers. All of them apply.
	Licences []string
	// Texts are the licence files, notices included, without doubles.
	Texts []Text
}

// Text is one licence file.
type Text struct {
	File    string // relative to the part's folder
	Content string
}

// accepted are the licences that a part may have. They allow to distribute the part in a
// binary, if its licence text comes along.
var accepted = []string{
	"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BlueOak-1.0.0", "CC0-1.0",
	"ISC", "MIT", "MIT-0", "Python-2.0", "Unlicense", "Zlib",
}

// exceptions are parts with one more licence, with the reason why they may be in a release.
var exceptions = []struct{ part, licence, reason string }{
	{"github.com/hashicorp/golang-lru/v2", "MPL-2.0",
		"gqlgen needs it. Its copyleft ends at its own files, which are linked unchanged and whose source is public"},
	{"npm htmx.org", "BSD-0-Clause", "another name of 0BSD"},
}

func excepted(part, licence string) bool {
	for _, e := range exceptions {
		if e.part == part && e.licence == licence {
			return true
		}
	}
	return false
}

// Check returns an error that lists the parts which must not be in a release: those without a
// licence, or with one that is not accepted, such as a copyleft licence.
func Check(parts []Part) error {
	var refused []string
	for _, p := range parts {
		if len(p.Licences) == 0 {
			refused = append(refused, fmt.Sprintf("%s %s: no known licence", p.Name, p.Version))
		}
		for _, id := range p.Licences {
			if !slices.Contains(accepted, id) && !excepted(p.Name, id) {
				refused = append(refused, fmt.Sprintf("%s %s: %s", p.Name, p.Version, id))
			}
		}
	}
	if len(refused) > 0 {
		return fmt.Errorf("the licences of these parts are not accepted; replace the part, or decide in deploy/release/licences:\n%s",
			strings.Join(refused, "\n"))
	}
	return nil
}

// enough is the percentage of a licence file that known licences must cover. The rest is
// names, dates and headings.
const enough = 75

// classify returns the licences in a text, sorted, and how much of it they cover.
func classify(text string) (ids []string, percent float64) {
	coverage := licensecheck.Scan([]byte(text))
	for _, match := range coverage.Match {
		if !match.IsURL && !slices.Contains(ids, match.ID) {
			ids = append(ids, match.ID)
		}
	}
	slices.Sort(ids)
	return ids, coverage.Percent
}

// add adds a licence file to the part. A file that is not fully recognized makes the part's
// licence unknown, unless it is a notice, which says less than a licence.
func (p *Part) add(file, content string) {
	if slices.ContainsFunc(p.Texts, func(t Text) bool { return t.Content == content }) {
		return
	}
	p.Texts = append(p.Texts, Text{File: file, Content: content})
	if isNotice(file) {
		return
	}
	ids, percent := classify(content)
	if percent < enough {
		ids = append(ids, "unknown text in "+file)
	}
	for _, id := range ids {
		if !slices.Contains(p.Licences, id) {
			p.Licences = append(p.Licences, id)
		}
	}
	slices.Sort(p.Licences)
}

// sorted sorts parts by name and version.
func sorted(parts []Part) []Part {
	slices.SortFunc(parts, func(a, b Part) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Version, b.Version))
	})
	return parts
}

const rule = "\n================================================================================\n"

// Write writes the licence texts of all parts as one file.
func Write(out io.Writer, parts []Part) error {
	var file strings.Builder
	file.WriteString("Reelay contains the parts listed here. Their licences follow.\n\n")
	for _, p := range parts {
		fmt.Fprintf(&file, "%s %s: %s\n", p.Name, p.Version, strings.Join(p.Licences, ", "))
	}
	for _, p := range parts {
		for _, text := range p.Texts {
			fmt.Fprintf(&file, "%s%s %s, %s%s\n%s\n", rule, p.Name, p.Version, text.File, rule, strings.TrimSpace(text.Content))
		}
	}
	_, err := io.WriteString(out, file.String())
	return err
}
