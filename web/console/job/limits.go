package job

import (
	"net/url"
	"strconv"
	"time"

	"github.com/a-h/templ"
	"github.com/reelay/reelay/jobs/submit"
)

// jobLimits are the fields of the form that set its constraints.
var jobLimits = []field{
	{Name: "maxPreemptions", Label: "Maximum preemptions", Type: "number",
		Description: "After this number of lost spot workers, it continues on on-demand capacity only. Empty: any number."},
	{Name: "finishBy", Label: "Finish by (UTC)", Type: "datetime-local",
		Description: "Without slack, it runs on on-demand capacity only. Empty: no deadline."},
	{Name: "maxPricePerHour", Label: "Maximum price per hour in USD", Type: "number",
		Description: "It runs only where a worker costs at most this. Empty: any price."},
}

// least is the smallest value that browsers accept: of a time they would read "0" as a mistake.
func (f field) least() templ.Attributes {
	if f.Type != "number" {
		return nil
	}
	return templ.Attributes{"min": "0"}
}

// pageTime is how browsers send a time without a zone.
const pageTime = "2006-01-02T15:04"

// readLimits reads the constraints of the job of the form, and adds the errors to problems.
func readLimits(in *submit.Submission, values url.Values, problems map[string]string) {
	if text := values.Get("maxPreemptions"); text != "" {
		n, err := strconv.Atoi(text)
		if in.MaxPreemptions = &n; err != nil {
			problems["maxPreemptions"] = "This must be a whole number."
		}
	}
	if text := values.Get("maxPricePerHour"); text != "" {
		price, err := strconv.ParseFloat(text, 64)
		if in.MaxPricePerHour = &price; err != nil {
			problems["maxPricePerHour"] = "This must be a number."
		}
	}
	if text := values.Get("finishBy"); text != "" {
		at, err := time.Parse(pageTime, text)
		if err != nil {
			at, err = time.Parse(time.DateTime, text)
		}
		if in.FinishBy = &at; err != nil {
			problems["finishBy"] = "This must be a date and a time, such as 2027-01-31T12:00."
		}
	}
}
