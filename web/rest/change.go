package rest

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/paging"
)

// ChangesInput narrows the feed of changes and asks for one page of it.
type ChangesInput struct {
	Kind   string `query:"kind" doc:"Filter by kind (comma-separated, in any case): model, pool, worker, queue, halt, account, member, key, alert, process." example:"model,pool"`
	Target string `query:"target" maxLength:"200" doc:"Return only changes of this object: an id, a model's name, a lane."`
	Since  string `query:"since" format:"date-time" doc:"Return only changes at or after this time."`
	Until  string `query:"until" format:"date-time" doc:"Return only changes before this time."`
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"The maximum number of changes on a page."`
	After  string `query:"after" doc:"The next of the page before. All other parameters must be the same as for that page."`
}

// change is one change of the installation.
type change struct {
	ID      string    `json:"id"`
	At      time.Time `json:"at"`
	Kind    string    `json:"kind" enum:"model,pool,worker,queue,halt,account,member,key,alert,process"`
	Action  string    `json:"action" doc:"The name of the GraphQL mutation, or startProcess."`
	Actor   string    `json:"actor" doc:"The name of the key at that time, the e-mail address and role of a member, or reelay."`
	Target  string    `json:"target" doc:"The id or the name of what was changed."`
	Title   string    `json:"title" doc:"One sentence." example:"Pool l4-spot changed"`
	Details []string  `json:"details" nullable:"false" doc:"What was changed, one value a line."`
}

type changeList struct {
	CacheControl string `header:"Cache-Control"`
	Body         struct {
		Changes []change `json:"changes" nullable:"false" doc:"Newest first."`
		Next    *string  `json:"next" doc:"Pass it as after to read the next page. Null after the last page."`
	}
}

func (s *service) registerChanges(api huma.API) {
	serve(api, huma.Operation{
		OperationID: "listChanges", Method: http.MethodGet, Path: "/api/v1/changes", Summary: "List what changed in the installation",
		Description: "For operators, newest first: models, pools, workers, queues, halts, accounts, members, keys, silences, and the versions and " +
			"settings of processes. It has no secrets, and nothing that belongs to an account's jobs.",
	}, func(ctx context.Context, in *ChangesInput) (*changeList, error) {
		var f query.ChangeFilter
		var err error
		if f.Kinds, err = readNames("kind", in.Kind, query.ChangeKinds); err != nil {
			return nil, err
		}
		if f.Since, err = readTime("since", in.Since); err != nil {
			return nil, err
		}
		if f.Until, err = readTime("until", in.Until); err != nil {
			return nil, err
		}
		f.Target = in.Target
		page, err := s.Reads.History.Changes(ctx, callerOf(ctx).Principal, f, paging.Request{First: in.Limit, After: in.After})
		if err != nil {
			return nil, err
		}
		out := &changeList{CacheControl: "no-store"}
		out.Body.Changes = []change{}
		for _, c := range page.Items {
			out.Body.Changes = append(out.Body.Changes, change{
				c.ID, c.At.UTC(), strings.ToLower(string(c.Kind)), c.Action, c.Actor, c.Target, c.Title, c.Details,
			})
		}
		if page.More {
			out.Body.Next = &page.End
		}
		return out, nil
	})
}
