package job

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/reelay/reelay/web/ui"
)

// eventKinds are the choices of events on a job's page. The style sheet hides the others.
var eventKinds = []struct{ name, label string }{
	{"most", "Without progress reports"}, {"all", "All events"}, {"state", "States"}, {"attempt", "Attempts"}, {"checkpoint", "Checkpoints"},
	{"progress", "Progress reports"},
}

// eventKind is the kind of a type of events.
func eventKind(of models.JobEventType) string {
	switch of {
	case models.EventProgress:
		return "progress"
	case models.EventCheckpointed, models.EventResumed:
		return "checkpoint"
	case models.EventLeased, models.EventStarted, models.EventLoaded, models.EventReleased, models.EventLost, models.EventRequeued,
		models.EventRetryScheduled:
		return "attempt"
	}
	return "state"
}

// detail is one value of an event, for display.
type detail struct {
	Name, Text string
	// Href is the address of a link, and Title the full text if Text is shortened.
	Href, Title string
}

// details lists the values of an event by name.
func (v *jobView) details(payload json.RawMessage) []detail {
	in := json.NewDecoder(bytes.NewReader(payload))
	in.UseNumber()
	var value any
	if in.Decode(&value) != nil {
		return nil
	}
	return v.detailsOf("", value)
}

// detailsOf lists the values of objects and arrays.
func (v *jobView) detailsOf(name string, value any) []detail {
	switch value := value.(type) {
	case map[string]any:
		var found []detail
		for _, key := range slices.Sorted(maps.Keys(value)) {
			found = append(found, v.detailsOf(strings.TrimSpace(name+" "+strings.ToLower(shell.Apart(key))), value[key])...)
		}
		return found
	case []any:
		var found []detail
		for _, item := range value {
			found = append(found, v.detailsOf(name, item)...)
			name = "" // only the first one is named
		}
		return found
	case bool:
		return []detail{{Name: name, Text: map[bool]string{true: "yes", false: "no"}[value]}}
	case json.Number:
		return []detail{numberDetail(name, value)}
	case string:
		if value != "" {
			return []detail{v.textDetail(name, value)}
		}
	}
	return nil
}

func numberDetail(name string, value json.Number) detail {
	number, err := value.Float64()
	if err != nil {
		return detail{Name: name, Text: value.String()}
	}
	switch {
	case name == "percent":
		return detail{Name: name, Text: ui.Percent(number)}
	case strings.HasSuffix(name, " bytes"):
		return detail{Name: strings.TrimSuffix(name, " bytes"), Text: ui.Bytes(int64(number))}
	case strings.HasSuffix(name, " seconds"):
		return detail{Name: strings.TrimSuffix(name, " seconds"), Text: ui.Seconds(&number)}
	case strings.Contains(value.String(), "."):
		return detail{Name: name, Text: strconv.FormatFloat(number, 'g', 4, 64)}
	}
	return detail{Name: name, Text: value.String()}
}

// sameDay reports whether two events are of the same day in UTC.
func sameDay(a, b time.Time) bool {
	return a.UTC().Format(time.DateOnly) == b.UTC().Format(time.DateOnly)
}

// constant is a state, a class or another name of the API.
var constant = regexp.MustCompile(`^[A-Z]+(_[A-Z]+)*$`)

func (v *jobView) textDetail(name, value string) detail {
	d := detail{Name: name, Text: ui.Clip(ui.Upright(value), 120), Title: ui.Upright(value)}
	switch models.IDKind(value) {
	case "":
		if constant.MatchString(value) {
			d.Text = ui.Words(value)
		} else if at, err := time.Parse(time.RFC3339Nano, value); err == nil {
			d.Text, d.Title = text.MomentToSecond(at.UTC(), time.Now()), value
		}
	case "job":
		d.Text, d.Href = ui.Short(value), "/jobs/"+value
	case "art":
		d.Text, d.Href = ui.Short(value), "/artifacts/"+value
	case "key":
		d.Text = ui.Short(value)
		if name := v.Keys[models.KeyID(value)]; name != "" {
			d.Text = ui.Clip(ui.Upright(name), 120)
		}
	case "wrk":
		d.Text = v.workerName(models.WorkerID(value))
	default:
		d.Text = ui.Short(value)
	}
	return d
}

var keyInText = regexp.MustCompile(`"(key_[0-9a-f-]{36})"`)

// readEventKeys adds the names of the keys that a job's events mention.
func (c *controller) readEventKeys(ctx context.Context, p jobs.Principal, v *jobView) error {
	var ids []string
	for _, e := range v.Events {
		for _, found := range keyInText.FindAllSubmatch(e.Payload, -1) {
			if id := string(found[1]); v.Keys[models.KeyID(id)] == "" {
				ids = append(ids, id)
			}
		}
	}
	names, err := c.KeyNames(ctx, p, ids...)
	if len(names) == 0 {
		return err
	}
	// A view that is shown keeps its own map.
	for id, name := range v.Keys {
		names[id] = name
	}
	v.Keys = names
	return nil
}
