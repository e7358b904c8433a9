package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/features/watch"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/internal/sse"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/door"
)

const (
	// maxEvents bounds the events of one response.
	maxEvents = 1000
	// maxSeq is the highest seq that an event can have.
	maxSeq = math.MaxInt32
	// beatEvery is the interval of comments that keep proxies from closing the stream.
	beatEvery = 15 * time.Second
)

// event is one entry of a job's history.
type event struct {
	Seq       int       `json:"seq" doc:"Grows by one per job, without a gap."`
	Type      string    `json:"type" doc:"Type of the event: QUEUED, LEASED, STARTED, PROGRESS, CHECKPOINTED, COMPLETED …"`
	AttemptID *string   `json:"attempt_id"`
	Payload   object    `json:"payload"`
	CreatedAt time.Time `json:"created_at"`
}

type events struct {
	Events []event `json:"events" nullable:"false"`
	More   bool    `json:"more" doc:"Whether there are more events. Pass the last seq of these as after."`
}

type eventsInput struct {
	JobPath
	After       int64  `query:"after" minimum:"0" maximum:"2147483647" doc:"Return events with a seq above this one."`
	LastEventID string `header:"Last-Event-ID" doc:"For streams: the seq of the last event that was read. It takes precedence over after."`
}

func (s *service) registerEvents(api huma.API) {
	schema := api.OpenAPI().Components.Schemas
	serve(api, huma.Operation{
		OperationID: "getVideoEvents", Method: http.MethodGet, Path: videosPath + "/{id}/events",
		Summary: "Read or follow a job's history",
		Description: "Up to 1000 events as JSON. With Accept: text/event-stream, past events and then live ones are sent, each once, with their seq as id. " +
			"The stream ends with the job. Last-Event-ID continues it without a gap.",
		Errors: []int{http.StatusNotFound, http.StatusNotAcceptable, http.StatusTooManyRequests},
		Responses: map[string]*huma.Response{
			"200": {Description: "The events", Content: map[string]*huma.MediaType{
				"application/json": {Schema: schema.Schema(reflect.TypeFor[events](), true, "Events")},
				eventStream: {Schema: &huma.Schema{Type: huma.TypeString,
					Description: "id: seq, event: type, data: one event as JSON. While the job waits, also event: waiting (without an id), data: {waiting_for: [{code, message, until}]}, whenever the reasons change; an empty list when it waits no longer."}},
			}},
			"204": {Description: "The stream has nothing more: the job's last event was read."},
		},
	}, s.getEvents)
}

func (s *service) getEvents(ctx context.Context, in *eventsInput) (*huma.StreamResponse, error) {
	p := callerOf(ctx)
	after, err := in.after()
	if err != nil {
		return nil, err
	}
	job, err := s.Reads.Jobs.Get(ctx, p.Principal, in.ID)
	if err != nil {
		return nil, err
	}
	if !p.stream {
		listed, err := s.listEvents(ctx, job, after)
		return &huma.StreamResponse{Body: func(out huma.Context) {
			out.SetHeader("Content-Type", "application/json")
			out.SetHeader("Cache-Control", "no-store")
			out.SetHeader("Vary", "Accept")
			out.SetStatus(http.StatusOK)
			_ = door.WriteJSON(out.BodyWriter(), listed)
		}}, err
	}
	if after > int64(job.EventSeq) {
		return nil, apierror.Invalid("Last-Event-ID", "The job's newest event has the seq %d: there is none after %d.", job.EventSeq, after)
	}
	if job.Status.Terminal() && after == int64(job.EventSeq) {
		return &huma.StreamResponse{Body: func(out huma.Context) { out.SetStatus(http.StatusNoContent) }}, nil
	}
	watched, end, err := s.Keys.While(ctx, p.secret)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(out huma.Context) {
		_, w := humago.Unwrap(out)
		s.stream(watched, end, w, in.ID, after)
	}}, nil
}

// after returns the seq of the last event that the caller has read.
func (in *eventsInput) after() (int64, error) {
	if in.LastEventID == "" || len(in.LastEventID) > 19 {
		if in.LastEventID != "" {
			return 0, apierror.Invalid("Last-Event-ID", "Last-Event-ID is not the seq of an event.")
		}
		return in.After, nil
	}
	seq, err := strconv.ParseUint(in.LastEventID, 10, 31)
	if err != nil {
		return 0, apierror.Invalid("Last-Event-ID", "Last-Event-ID is not the seq of an event.")
	}
	return int64(seq), nil
}

func (s *service) listEvents(ctx context.Context, job *models.Job, after int64) (*events, error) {
	ctx, read, err := s.Reads.Shares.Admit(ctx, callerOf(ctx).Principal, query.PagePrice(min(job.EventSeq-int(after), maxEvents)))
	if err != nil {
		return nil, err
	}
	defer read.End()
	edges, err := s.Reads.Jobs.Of(callerOf(ctx).Principal, job)
	if err != nil {
		return nil, err
	}
	listed := &events{Events: []event{}, More: true}
	for listed.More && len(listed.Events) < maxEvents {
		pages, err := edges.Events(ctx, int(after), paging.Max)
		if err != nil {
			return nil, err
		}
		page := pages[job.ID]
		for _, e := range page.Items {
			listed.Events = append(listed.Events, newEvent(e))
			after = int64(e.Seq)
		}
		listed.More = page.More
	}
	return listed, nil
}

func newEvent(e *models.JobEvent) event {
	shown := event{Seq: e.Seq, Type: string(e.Type), Payload: object(e.Payload), CreatedAt: e.CreatedAt.UTC()}
	if e.AttemptID != "" {
		attempt := string(e.AttemptID)
		shown.AttemptID = &attempt
	}
	return shown
}

// stream sends events until the job's last one, or until the request ends or the key
// becomes invalid.
func (s *service) stream(ctx context.Context, end context.CancelCauseFunc, w http.ResponseWriter, id models.JobID, after int64) {
	defer end(nil)
	w.Header().Set("Vary", "Accept")
	err := sse.Serve(ctx, w, beatEvery, sse.Comment, func(ctx context.Context, out *sse.Stream) error {
		if err := out.Send([]byte("retry: 1000\n\n")); err != nil {
			return err
		}
		return s.follow(ctx, out, id, after)
	})
	if err != nil && ctx.Err() == nil && !errors.Is(err, sse.ErrSlow) {
		slog.WarnContext(ctx, "a stream of events ended", "job", id, "error", err)
	}
}

// follow sends the events of a job.
func (s *service) follow(ctx context.Context, out *sse.Stream, id models.JobID, after int64) error {
	events, err := s.Watcher.Events(ctx, callerOf(ctx).Principal, id, after)
	if err != nil {
		return err
	}
	waits := make(chan error, 1)
	waiting, stop := context.WithCancel(ctx)
	go func() {
		p := callerOf(ctx).Principal
		waits <- s.Watcher.Waiting(waiting, p, id, func(reasons []query.WaitingReason) error {
			return sendWaiting(out, p, reasons)
		})
	}()
	defer func() { stop(); <-waits }()
	return watch.Each(ctx, events, func(e *models.JobEvent) error {
		shown := newEvent(e)
		raw, err := json.Marshal(shown) // on one line
		if err != nil {
			return err
		}
		return out.Send(fmt.Appendf(nil, "id: %d\nevent: %s\ndata: %s\n\n", shown.Seq, shown.Type, raw))
	})
}

// waitingNote is why a job waits. It is no event of the job: it has no seq, and is not sent again
// to a client that reconnects unless it still holds.
type waitingNote struct {
	WaitingFor []waitingReason `json:"waiting_for"`
}

type waitingReason struct {
	Code        string     `json:"code"`
	Message     string     `json:"message"`
	Consequence string     `json:"consequence"`
	Change      string     `json:"change"`
	Until       *time.Time `json:"until"`
}

// sendWaiting sends why the job waits now; an empty list says that it waits no longer.
func sendWaiting(out *sse.Stream, p jobs.Principal, reasons []query.WaitingReason) error {
	note := waitingNote{WaitingFor: []waitingReason{}}
	for _, r := range reasons {
		shown := waitingReason{Code: string(r.Code), Message: r.For(p), Consequence: r.Consequence, Change: r.Change}
		if !r.Until.IsZero() {
			shown.Until = new(r.Until.UTC())
		}
		note.WaitingFor = append(note.WaitingFor, shown)
	}
	raw, err := json.Marshal(note) // on one line
	if err != nil {
		return err
	}
	return out.Send(fmt.Appendf(nil, "event: waiting\ndata: %s\n\n", raw))
}
