package comfyapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/sse"
	"github.com/reelay/reelay/models"
)

const (
	// lookEvery is the least time between two looks at a job.
	lookEvery = 200 * time.Millisecond
	// beatEvery is the interval of comments. The packages give a silent stream up after a minute.
	beatEvery = 15 * time.Second
	// maxPreview bounds a picture in an event. Larger ones are left out.
	maxPreview = 512 << 10
)

// events sends the state of a job, and then its changes until it ends.
func (a *api) events(w http.ResponseWriter, c *call, id string) (*answer, error) {
	if c.Method != http.MethodGet || !strings.Contains(c.Header.Get("Accept"), "text/event-stream") {
		return nil, faultf(http.StatusNotAcceptable, "not_acceptable", "Events are a stream: send GET with Accept: text/event-stream.")
	}
	job, err := a.job(c.Context(), c, id)
	if err != nil {
		return nil, err
	}
	watched, end, err := a.Keys.While(c.Context(), c.secret)
	if err != nil {
		return nil, err
	}
	defer end(nil)
	err = sse.Serve(watched, w, beatEvery, sse.Comment, func(ctx context.Context, out *sse.Stream) error {
		t := &teller{api: a, call: c, out: out}
		return a.Watcher.Job(ctx, c.caller, job.ID, lookEvery, func(job *models.Job) error { return t.tell(ctx, job) })
	})
	if err != nil && watched.Err() == nil && !errors.Is(err, sse.ErrSlow) {
		slog.WarnContext(watched, "a stream of events ended", "job", id, "error", err)
	}
	return nil, nil
}

// teller sends what of a job has changed since the last call of tell.
type teller struct {
	*api
	*call
	out     *sse.Stream
	told    map[string]string // by the name of the event
	preview models.ArtifactID
}

// tell sends the status first, but that of the end last: clients stop there.
func (t *teller) tell(ctx context.Context, job *models.Job) error {
	v, err := t.view(ctx, t.call, job)
	if err != nil {
		return err
	}
	status := func() error { return t.send("status", map[string]any{"status": v.Status, "queue_position": nil}) }
	if !job.Status.Terminal() {
		if err := status(); err != nil {
			return err
		}
	}
	if v.Progress != nil {
		if err := t.send("progress", v.Progress); err != nil {
			return err
		}
	}
	if job.Status.Terminal() {
		for _, output := range v.Outputs {
			if err := t.send("output", output); err != nil {
				return err
			}
		}
		return status()
	}
	if job.PreviewID == "" || job.PreviewID == t.preview {
		return nil
	}
	t.preview = job.PreviewID
	picture, contentType := t.picture(ctx, job.PreviewID)
	if picture == nil {
		return nil
	}
	return t.send("preview", map[string]any{"node_id": "", "content_type": contentType, "data_base64": picture})
}

// send sends an event, unless it is the same as the last one of that name.
func (t *teller) send(name string, data any) error {
	raw, err := json.Marshal(data) // on one line
	if err != nil {
		return err
	}
	if t.told == nil {
		t.told = map[string]string{}
	}
	if t.told[name] == string(raw) {
		return nil
	}
	t.told[name] = string(raw)
	return t.out.Send(fmt.Appendf(nil, "event: %s\ndata: %s\n\n", name, raw))
}

// picture reads a picture of the unfinished video, or returns nil: a stream does not need it.
func (t *teller) picture(ctx context.Context, id models.ArtifactID) (data []byte, contentType string) {
	found, err := t.Reads.Jobs.Artifact(ctx, t.caller, id)
	if err != nil || found.SizeBytes > maxPreview || !strings.HasPrefix(found.ContentType, "image/") {
		return nil, ""
	}
	object, err := t.Inputs.Objects.Open(ctx, found.ObjectKey, found.SizeBytes)
	if err != nil {
		return nil, ""
	}
	defer object.Close()
	if data, err = io.ReadAll(io.LimitReader(object, maxPreview)); err != nil {
		return nil, ""
	}
	return data, found.ContentType
}
