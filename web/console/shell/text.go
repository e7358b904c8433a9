package shell

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

// Listed is what stands before item i of a list within a sentence.
func Listed(i int) string {
	if i == 0 {
		return " "
	}
	return ", "
}

// Because gives a reason at the end of a sentence, if there is one.
func Because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + ui.Upright(text.Printable(reason))
}

// Verbatim marks a piece of a text that has its own spaces.
func Verbatim(piece string) string { return piece }

// OutcomeName says how attempts ended, such as "failed, model crash".
func OutcomeName(o models.AttemptSum) string {
	name := ui.Words(string(o.Status))
	if o.FailureClass != "" {
		name += ", " + ui.Words(string(o.FailureClass))
	}
	return name
}

// QueueName names a lane, or a model's queue in it, in a sentence.
func QueueName(lane models.Tier, model string) string {
	name := "the " + ui.Words(string(lane)) + " lane"
	if model == "" {
		return name
	}
	return model + " in " + name
}

// Used returns which part of a limit is used, in percent.
func Used(n, limit int) float64 {
	if limit <= 0 {
		return 100
	}
	return min(100, 100*float64(n)/float64(limit))
}

// Unlimited reports whether a limit is so high that it is none.
func Unlimited(limit int) bool { return limit >= jobs.Unlimited }

// PercentOf is partOf as a number.
func PercentOf(n, of int) float64 { return 100 * float64(n) / float64(max(of, 1)) }

// GPUSeconds formats a time on a GPU, in seconds.
func GPUSeconds(s float64) string { return ui.Seconds(&s) }

// Apart turns latestCheckpoint into words.
func Apart(name string) string {
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

// Indented returns a JSON document with one field per line.
func Indented(raw json.RawMessage) string {
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "  ", "  "); err != nil {
		return string(raw)
	}
	return out.String()
}
