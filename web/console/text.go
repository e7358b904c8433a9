package console

import (
	"github.com/reelay/reelay/internal/text"
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
