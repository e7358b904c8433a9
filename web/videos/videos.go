package videos

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/features/video"
	"github.com/reelay/reelay/internal/httpguard"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/door"
)

// Inputs stores the files of clients.
type Inputs interface {
	// Put stores a complete file and returns its artifact, or INVALID_INPUT.
	Put(ctx context.Context, p jobs.Principal, contentType string, body io.Reader) (*models.Artifact, error)
}

// Config is what the Videos API calls.
type Config struct {
	Authenticate door.Authenticate
	Videos       *video.Videos
	// Shares limits the cost of lists.
	Shares *query.Shares
	// Inputs is nil if files are refused.
	Inputs Inputs
	Models Models
	// VideosKept is how long a video is kept after its job ended.
	VideosKept time.Duration
}

type api struct {
	Config
	large *httpguard.LargeBodies
}

const (
	// largeAtOnce bounds the memory that bodies use: each about three times maxBody, until
	// its response is sent.
	largeAtOnce = 8
	largeEach   = 3 // of one account
	largeWait   = time.Minute
)

// New returns a handler for all paths below /v1/.
func New(c Config) http.Handler {
	return &api{Config: c, large: httpguard.NewLargeBodies(largeAtOnce, largeEach, largeWait)}
}

// call is one request of an authenticated caller.
type call struct {
	*http.Request
	came   time.Time
	secret string
	caller jobs.Principal
	// leave frees the place of a large body.
	leave func()
}

// action handles a call. Its result is sent as JSON with status 200. If the result is
// nil, the action has written the response itself.
type action func(http.ResponseWriter, *call) (any, error)
