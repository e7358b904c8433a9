package console

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/ui"
)

// templ drops the line breaks around a component, and between an if and what follows. Templates
// write the spaces of a sentence into its strings: TestTextDoesNotRunTogether finds where one is
// missing.

// listed is what stands before item i of a list within a sentence.
func listed(i int) string {
	if i == 0 {
		return " "
	}
	return ", "
}

// because gives a reason at the end of a sentence, if there is one.
func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + ui.Upright(text.Printable(reason))
}

// verbatim marks a piece of a text that has its own spaces.
func verbatim(piece string) string { return piece }

// outcomeName says how attempts ended, such as "failed, model crash".
func outcomeName(o models.AttemptSum) string {
	name := ui.Words(string(o.Status))
	if o.FailureClass != "" {
		name += ", " + ui.Words(string(o.FailureClass))
	}
	return name
}

func queueName(lane models.Tier, model string) string {
	name := "the " + ui.Words(string(lane)) + " lane"
	if model == "" {
		return name
	}
	return model + " in " + name
}

// used returns which part of a limit is used, in percent.
func used(n, limit int) float64 {
	if limit <= 0 {
		return 100
	}
	return min(100, 100*float64(n)/float64(limit))
}

// unlimited reports whether a limit is so high that it is none.
func unlimited(limit int) bool { return limit >= jobs.Unlimited }

// percentOf is partOf as a number.
func percentOf(n, of int) float64 { return 100 * float64(n) / float64(max(of, 1)) }

func gpuSeconds(s float64) string { return ui.Seconds(&s) }

// apart turns latestCheckpoint into words.
func apart(name string) string {
	var b strings.Builder
	for i, r := range name {
		switch {
		case i == 0:
			b.WriteString(strings.ToUpper(string(r)))
		case r >= 'A' && r <= 'Z':
			b.WriteString(" " + strings.ToLower(string(r)))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// indented returns a JSON document with one field per line.
func indented(raw json.RawMessage) string {
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "  ", "  "); err != nil {
		return string(raw)
	}
	return out.String()
}
