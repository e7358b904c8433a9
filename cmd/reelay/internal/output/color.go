package output

import "strings"

// Color is the escape sequence that starts a colour of a terminal.
type Color string

const (
	Green   Color = "\x1b[32m"
	Yellow  Color = "\x1b[33m"
	Red     Color = "\x1b[31m"
	Magenta Color = "\x1b[35m"
	Cyan    Color = "\x1b[36m"
	Dim     Color = "\x1b[2m"
	Bold    Color = "\x1b[1m"

	reset = "\x1b[0m"
)

// states are the colours of the states of everything that has one, by their first word in
// lower case. A state that is not listed has no colour.
var states = map[string]Color{}

func init() {
	for color, words := range map[Color]string{
		Green: "completed succeeded delivered idle available enabled good active ok done redriven",
		Cyan:  "running busy assigned completing leased pending open booting",
		Yellow: "scheduled blocked draining paused disabled quarantined degraded warning price_limit refused too closed will in released " +
			"cancelling asked ending missing",
		Red: "failed lost critical error given expired dead firing",
		Dim: "cancelled terminated gone deleted revoked discarded resolved retried no -",
	} {
		for word := range strings.FieldsSeq(words) {
			states[word] = color
		}
	}
}

// StateColor returns the colour of a state, such as COMPLETED, or "paused by night shift".
func StateColor(state string) Color {
	state = strings.ToLower(state)
	if strings.HasSuffix(state, "deleted") {
		return Dim
	}
	first, _, _ := strings.Cut(state, " ")
	return states[strings.Trim(first, ",:;")]
}
