package console

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"
)

// oddTime finds times and durations that are not written as text.Moment and text.Duration write
// them: a clock with AM or PM, RFC 3339 or a date of numbers, fractions of seconds of a clock, a
// month before its day, and durations as Go prints them.
var oddTime = regexp.MustCompile(`(?i:\b\d{1,2}(:\d\d)? ?[ap]m\b)|\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\b\d\d:\d\d:\d\d[.,]\d|` +
	`\b(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]* \d{1,2}, |\b\d+h\d+m|\b\d+m\d+s\b|\b(in|for|about|after|late by) \d+:\d\d\b`)

// verbatimTags hold what is not Reelay's to word: code, logs, data, and fields of forms.
var verbatimTags = []string{"script", "style", "code", "pre", "textarea", "title", "svg", "option"}

// readText appends the text below a node that Reelay words.
func readText(n *html.Node, all *strings.Builder) {
	switch {
	case n.Type == html.TextNode:
		all.WriteString(n.Data)
	case n.Type == html.ElementNode && slices.Contains(verbatimTags, n.Data):
		return
	}
	for child := range n.ChildNodes() {
		readText(child, all)
	}
	if n.Type == html.ElementNode && n.Data != "span" && n.Data != "time" {
		all.WriteString("\n")
	}
}

func TestOddTime(t *testing.T) {
	t.Parallel()

	for _, odd := range []string{"Nov 27, 12:18 AM", "12:30am", "at 3 PM", "2026-11-27T01:19:38Z", "2026-11-27 01:19", "01:19:38.9", "1h30m",
		"2m8s", "ends in 0:23"} {
		require.Regexp(t, oddTime, odd)
	}
	for _, fine := range []string{"27 Nov 01:19 UTC", "27 Nov 2025 01:19:38 UTC", "01:19:38", "2 min 08 s", "1.5 s", "1 h 00 min",
		"3 days ago", "16:9", "every weekday at 09:00", "10 amber"} {
		require.NotRegexp(t, oddTime, fine)
	}
}

// TestTimesHaveOneForm reads every page as the server writes it. TestPages reads them as the
// browser shows them.
func TestTimesHaveOneForm(t *testing.T) {
	t.Parallel()

	b, pages := everyPage(t)
	delete(pages, "REST API") // its examples are data
	delete(pages, "GraphiQL")
	for name, path := range pages {
		got := b.get(t, path)
		if got.Status == http.StatusSeeOther {
			continue
		}
		page, err := html.Parse(strings.NewReader(got.Body))
		require.NoError(t, err, name)
		var all strings.Builder
		readText(page, &all)

		for line := range strings.SplitSeq(all.String(), "\n") {
			require.NotRegexp(t, oddTime, line, "%s (%s)", name, path)
		}
	}
}
