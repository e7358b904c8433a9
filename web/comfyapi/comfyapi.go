package comfyapi

import (
	"context"
	"net/http"
	"time"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/features/watch"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/httpguard"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/inputs"
	"github.com/reelay/reelay/jobs/operate"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
)

// Config is what the Comfy API calls.
type Config struct {
	// Keys authenticates callers, and ends streams whose key becomes invalid.
	Keys      *auth.KeyWatch
	Submitter *submit.Submitter
	Canceller *operate.Canceller
	Inputs    *inputs.Inputs
	Reads     *query.Reads
	Watcher   *watch.Watcher
	// Base returns the scheme and host at which a caller reaches this server.
	Base func(*http.Request) string
	// OutputsKept is how long outputs are kept after their job ended.
	OutputsKept time.Duration
}

type api struct {
	Config
	large *httpguard.LargeBodies
}

const (
	// largeAtOnce bounds the memory that files use: each up to inputs.MaxPutBytes.
	largeAtOnce = 4
	largeEach   = 2 // of one account
	largeWait   = time.Minute
)

// New returns a handler for all paths below /api/v2/, and below /comfy/MODEL/api/v2/.
func New(c Config) http.Handler {
	return &api{Config: c, large: httpguard.NewLargeBodies(largeAtOnce, largeEach, largeWait)}
}

// call is one request of an authenticated caller.
type call struct {
	*http.Request
	secret string
	caller jobs.Principal
	// model is the name in the path, or "".
	model string
	// leave frees the place of a large body.
	leave func()
}

// answer is the response to a call: JSON with a status. A nil body is none.
type answer struct {
	status int
	body   any
}

// action handles a call. If the answer is nil, the action has written the response itself.
type action func(http.ResponseWriter, *call) (*answer, error)

func ok(body any) *answer { return &answer{http.StatusOK, body} }

// job returns a job of the caller's account that brought a graph, or NOT_FOUND.
func (a *api) job(ctx context.Context, c *call, id string) (*models.Job, error) {
	job, err := a.Reads.Jobs.Get(ctx, c.caller, models.JobID(id))
	if err != nil {
		return nil, err
	}
	if job.AccountID != c.caller.AccountID || !job.DeletedAt.IsZero() || broughtBy(job).Graph == nil {
		return nil, apierror.NotFound("job")
	}
	return job, nil
}

// room waits for a place for a large body, until the end of the call.
func (a *api) room(c *call) error {
	if c.ContentLength >= 0 && c.ContentLength <= httpguard.SmallBody {
		return nil
	}
	leave, ok := a.large.Enter(c.Context(), string(c.caller.AccountID))
	if !ok {
		return apierror.ErrBusy
	}
	c.leave = leave
	return nil
}
