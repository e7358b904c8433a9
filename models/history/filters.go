package history

import (
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/joblist"
)

// Filters returns, by name, the filters whose lists must be fast on a history of n jobs.
func Filters(n int) map[string]joblist.JobFilter {
	at := func(part float64) time.Time {
		return time.Now().Add(-time.Duration(part * float64(n) * float64(time.Second)))
	}
	facets := func(all ...joblist.Facet) joblist.JobTerms { return joblist.JobTerms{Facets: all} }
	word := func(text string) joblist.JobTerms { return joblist.JobTerms{Words: []joblist.Word{{Text: text}}} }
	statuses := func(all ...models.JobStatus) []models.JobStatus { return all }
	return map[string]joblist.JobFilter{
		"nothing":                        {},
		"status, frequent":               {Status: statuses(models.JobCompleted)},
		"status, rare":                   {Status: statuses(models.JobScheduled)},
		"status, none":                   {Status: statuses(models.JobBlocked)},
		"statuses":                       {Status: statuses(models.JobFailed, models.JobCancelled, models.JobQueued)},
		"type, frequent":                 {Type: "video.generate"},
		"type, rare":                     {Type: "still.generate"},
		"model, frequent":                {Model: "alpha"},
		"model, unknown":                 {Model: "none"},
		"tier":                           {Tier: []models.Tier{models.TierBatch}},
		"model and tier that never meet": {Model: "alpha", Tier: []models.Tier{models.TierFree}},
		"status, model, tier, type": {Status: statuses(models.JobScheduled), Model: "beta", Tier: []models.Tier{models.TierPro},
			Type: "video.generate"},
		"user, frequent":                   {UserID: "crowd"},
		"user, rare":                       {UserID: "user-5"},
		"user, unknown":                    {UserID: "nobody"},
		"user, frequent, of a rare status": {UserID: "crowd", Status: statuses(models.JobScheduled)},
		"user, frequent, of no status":     {UserID: "crowd", Status: statuses(models.JobBlocked)},
		"failure class, frequent":          {FailureClass: []models.FailureClass{models.FailTimeout}},
		"failure class, rare":              {FailureClass: []models.FailureClass{models.FailPoison}},
		"failure class, none":              {FailureClass: []models.FailureClass{models.FailBudget}},
		"failure classes of a model":       {FailureClass: []models.FailureClass{models.FailTimeout, models.FailPoison}, Model: "beta"},
		"failure class of a kind never met": {FailureClass: []models.FailureClass{models.FailTimeout}, Model: "alpha",
			Tier: []models.Tier{models.TierFree}},
		"dead, of a kind that is never met": {Dead: true, Model: "alpha", Tier: []models.Tier{models.TierFree}},
		"created after":                     {CreatedAfter: at(0.01)},
		"created before":                    {CreatedBefore: at(0.5)},
		"created between, of a status":      {CreatedAfter: at(0.6), CreatedBefore: at(0.5), Status: statuses(models.JobFailed)},
		"created in the future":             {CreatedAfter: time.Now().Add(time.Hour)},
		"dead":                              {Dead: true},
		"dead, of a model":                  {Dead: true, Model: "beta"},
		"word, a rare value":                {Terms: word("c6")},
		"word, a frequent value":            {Terms: word("prod")},
		"word, a key":                       {Terms: word("key-400")},
		"word, unknown":                     {Terms: word("nothing")},
		"word, frequent, and a rare status": {Terms: word("prod"), Status: statuses(models.JobScheduled)},
		"worker, busy":                      {Terms: joblist.JobTerms{WorkerID: Busy}},
		"worker, quiet":                     {Terms: joblist.JobTerms{WorkerID: Quiet}},
		"worker, unknown":                   {Terms: joblist.JobTerms{WorkerID: models.NewWorkerID()}},
		"waste":                             {Terms: joblist.JobTerms{WasteOver: new(50.0)}},
		"waste, more than there was":        {Terms: joblist.JobTerms{WasteOver: new(1e9)}},
		"not a status":                      {Terms: facets(joblist.Facet{Column: "status", Not: true, Values: []string{"COMPLETED"}})},
		"not a failure class":               {Terms: facets(joblist.Facet{Column: "failure_class", Not: true, Values: []string{"TIMEOUT"}})},
		"model, by its beginning":           {Terms: facets(joblist.Facet{Column: "model", Prefix: true, Values: []string{"gam"}})},
		"failed, not of a failure class": {Status: statuses(models.JobFailed),
			Terms: facets(joblist.Facet{Column: "failure_class", Not: true, Values: []string{"TIMEOUT", "MODEL_CRASH", "POISON"}})},
	}
}
