package rest

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/reelay/reelay/features/attention"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
)

type cause struct {
	Kind   string     `json:"kind" enum:"halt,workers_do_not_boot,failing_worker,provider,no_workers,failing_jobs,paused_queue,flooding_account,failing_endpoint,paused_pool,pool_at_maximum,alert" doc:"What it is. An alert stands alone if no other cause explains it."`
	Urgent bool       `json:"urgent" doc:"Urgent causes stop jobs, or will. The others, such as a pause, may be meant."`
	Title  string     `json:"title"`
	Detail string     `json:"detail" doc:"More in a sentence or less. It may be empty."`
	Path   string     `json:"path" doc:"The page of the console about it."`
	Since  *time.Time `json:"since" doc:"Null if it is not known."`
	Alerts []symptom  `json:"alerts" nullable:"false" doc:"The alerts that follow from it, the most severe first."`
}

// symptom is an alert below its cause.
type symptom struct {
	ID       models.AlertID `json:"id"`
	Rule     string         `json:"rule"`
	Severity string         `json:"severity" enum:"P1,P2,P3"`
	Message  string         `json:"message"`
	Since    time.Time      `json:"since"`
}

type causeList struct {
	CacheControl string `header:"Cache-Control"`
	Body         struct {
		Causes []cause `json:"causes" nullable:"false" doc:"The most urgent first. Empty if all is well."`
	}
}

func (s *service) registerAttention(api huma.API) {
	serve(api, huma.Operation{
		OperationID: "getAttention", Method: http.MethodGet, Path: "/api/v1/attention", Summary: "Read what needs attention",
		Description: "For operators: what they should look at, the most urgent first, each with the alerts that follow from it. The overview of the console and `reelay top` show the same.",
		Errors:      []int{http.StatusTooManyRequests},
	}, func(ctx context.Context, _ *struct{}) (*causeList, error) {
		p := callerOf(ctx).Principal
		ctx, read, err := s.Reads.Shares.Admit(ctx, p, query.OverviewPrice)
		if err != nil {
			return nil, err
		}
		defer read.End()
		causes, err := (&attention.Finder{Reads: s.Reads, Alerts: s.Alerts}).Causes(ctx, p)
		if err != nil {
			return nil, err
		}
		out := &causeList{CacheControl: "no-store"}
		out.Body.Causes = lo.Map(causes, func(c attention.Cause, _ int) cause { return newCause(c) })
		return out, nil
	})
}

func newCause(c attention.Cause) cause {
	out := cause{strings.ToLower(string(c.Kind)), c.Urgent, c.Title, c.Detail, c.Path, nil, []symptom{}}
	if !c.Since.IsZero() {
		out.Since = lo.ToPtr(c.Since.UTC())
	}
	for _, a := range c.Alerts {
		out.Alerts = append(out.Alerts, symptom{a.ID, a.Rule, string(a.Severity), a.Message, a.Since.UTC()})
	}
	return out
}
