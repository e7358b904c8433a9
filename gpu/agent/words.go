package agent

import (
	"cmp"
	"strings"

	"github.com/reelay/reelay/gpu/runtime"
)

const (
	maxSentence = 2000     // bytes of a failure's sentence: the rest is in its detail
	maxDetail   = 16 << 10 // bytes of a failure's detail
	maxLog      = 64 << 10 // bytes of an attempt's log
)

// words are the texts about a failure that people read, without secrets.
type words struct {
	sentence string // what went wrong
	detail   string // a stack trace or the end of the log
	log      string
}

// wordsOf returns the texts about a failure, cut to their limits: a log keeps its end,
// a sentence its beginning.
func (w *worker) wordsOf(failure *runtime.Failure) words {
	log := w.secrets.Clean(w.runtimes.Tail())
	return words{
		sentence: beginning(w.secrets.Clean(failure.Message), maxSentence),
		detail:   ending(cmp.Or(w.secrets.Clean(failure.Detail), log), maxDetail),
		log:      ending(log, maxLog),
	}
}

// lastWords returns the log of an attempt that did not fail.
func (w *worker) lastWords() string { return ending(w.secrets.Clean(w.runtimes.Tail()), maxLog) }

func beginning(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len("…")], "") + "…"
}

func ending(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[len(text)-most:], "")
}
