package connect

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/reelay/reelay/client"
)

// idNouns are the kinds of ids, in words.
var idNouns = map[string]string{
	"job": "job", "wrk": "worker", "acc": "account", "key": "key", "dead": "dead letter", "bulk": "bulk operation", "whk": "webhook endpoint",
	"whd": "webhook delivery", "alr": "alert", "sil": "silence", "mem": "member", WorkflowKind: "workflow",
}

// minShortID is how many hex digits of an id are enough, if no other begins with them.
const minShortID = 6

var hexDigits = regexp.MustCompile(`^[0-9a-f]+(-[0-9a-f]*)*$`)

// FullID returns the id of a kind that a text names: the id itself, or the only one that begins
// with it. The kind (job_) and an ellipsis at the end may be left out.
// A text that begins with the kind, but cannot be the beginning of an id, is returned unchanged: the
// API says that there is no such thing.
func FullID(ctx context.Context, c *client.Client, kind, text string) (string, error) {
	short := strings.ToLower(strings.TrimRight(strings.TrimSpace(text), ".…"))
	digits := strings.TrimPrefix(short, kind+"_")
	hex := strings.ReplaceAll(digits, "-", "")
	unclear := !hexDigits.MatchString(digits) || len(hex) < minShortID || len(hex) > 32
	switch {
	case unclear && (text == "" || digits != short): // none, or an id that the API does not know
		return text, nil
	case !hexDigits.MatchString(digits) || len(hex) > 32:
		return "", fmt.Errorf("%q is not the id of a %s, such as %s", text, idNouns[kind], kind+"_01937d3e")
	case len(hex) < minShortID:
		return "", fmt.Errorf("%q is too short: give at least the first %d digits of the %s's id", text, minShortID, idNouns[kind])
	}
	if len(hex) == 32 && len(digits) == 36 {
		return kind + "_" + digits, nil
	}
	found, err := c.IDs(ctx, kind+"_"+digits)
	switch {
	case err != nil:
		return "", err
	case len(found) == 1:
		return found[0], nil
	case len(found) == 0:
		return "", fmt.Errorf("there is no %s whose id begins with %s", idNouns[kind], kind+"_"+digits)
	}
	return "", fmt.Errorf("more than one %s has an id that begins with %s:\n  %s", idNouns[kind], kind+"_"+digits, strings.Join(found, "\n  "))
}

// FullIDs is [FullID] for several texts.
func FullIDs(ctx context.Context, c *client.Client, kind string, texts []string) ([]string, error) {
	ids := make([]string, len(texts))
	for i, text := range texts {
		var err error
		if ids[i], err = FullID(ctx, c, kind, text); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// WorkflowKind is the kind of the ids of workflows.
const WorkflowKind = "wfl"
