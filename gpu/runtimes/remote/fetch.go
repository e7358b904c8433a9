package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/gpu/runtime"
)

const (
	maxFilm = 16 << 30 // bytes of a result
	// stallLimit is how long a transfer may bring nothing.
	stallLimit = time.Minute
)

// extensions are those of results, by the kind of the result.
var extensions = map[string][]string{
	"video":     {".mp4", ".webm"},
	"thumbnail": {".webp", ".jpg", ".jpeg", ".png"},
}

// result fetches what the engine made. The first video is the result; without one, the first
// picture.
func (r *run) result(ctx context.Context, status Status) (runtime.Result, error) {
	result := runtime.Result{Output: status.Output}
	for kind, to := range map[string]*string{"video": &result.Video, "thumbnail": &result.Thumbnail} {
		i := slices.IndexFunc(status.Files, func(f File) bool {
			return slices.Contains(extensions[kind], strings.ToLower(filepath.Ext(f.Name)))
		})
		if i < 0 {
			continue
		}
		extension := strings.ToLower(filepath.Ext(status.Files[i].Name))
		if extension == ".jpeg" {
			extension = ".jpg"
		}
		path := filepath.Join(r.job.Workdir, kind+extension)
		if err := r.fetch(ctx, status.Files[i], path); err != nil {
			return runtime.Result{}, err
		}
		*to = path
	}
	if result.Video == "" && result.Thumbnail == "" && len(result.Output) == 0 {
		return runtime.Result{}, runtime.Failf(runtime.DefectiveResult,
			"NO_RESULT: The engine %s reports success, but has no video or picture of the job.", r.handle.URL)
	}
	return result, nil
}

// fetch copies a result to path. An interrupted transfer resumes.
func (r *run) fetch(ctx context.Context, file File, path string) error {
	if file.Inline != nil {
		return errors.Join(r.notEmpty(int64(len(file.Inline))), os.WriteFile(path, file.Inline, 0o600))
	}
	target, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer target.Close()
	have, whole := int64(0), false
	for !whole {
		err := r.insist(ctx, "fetching the result", func() error {
			at, done, err := r.part(ctx, file, target, have)
			if at > have {
				r.touch() // it makes progress
			}
			have, whole = at, done
			return err
		})
		if err != nil {
			return err
		}
	}
	return errors.Join(r.notEmpty(have), target.Close())
}

func (r *run) notEmpty(size int64) error {
	if size == 0 {
		return runtime.Failf(runtime.DefectiveResult, "NO_RESULT: The engine %s reports success, but the result has 0 bytes.", r.handle.URL)
	}
	return nil
}

// part fetches the rest of a result from an offset. It returns how much there is then, and whether
// that is all.
func (r *run) part(ctx context.Context, file File, target *os.File, offset int64) (have int64, whole bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(stallLimit, func() { cancel(errStalled) })
	defer stalled.Stop()
	body, at, size, err := r.engine.Fetch(ctx, file, offset)
	if refused, ok := errors.AsType[*Refused](err); ok && refused.Status < 500 && !slices.Contains(later, refused.Status) {
		return offset, false, fmt.Errorf("%w: %w", errLostFile, refused)
	}
	if err != nil {
		return offset, false, err
	}
	defer body.Close()
	if at > offset || at < 0 {
		return offset, false, &Confused{fmt.Sprintf("bytes from %d where bytes from %d were requested", at, offset)}
	}
	most := cmp.Or(file.Most, maxFilm)
	if size > most {
		return 0, false, runtime.Failf(runtime.DefectiveResult, "TOO_LARGE: The result has %d bytes; at most %d are fetched.", size, most)
	}
	if _, err := target.Seek(at, io.SeekStart); err != nil {
		return offset, false, err
	}
	have = at
	buffer := make([]byte, 256<<10)
	for {
		n, err := body.Read(buffer)
		if n > 0 {
			stalled.Reset(stallLimit)
			if _, err := target.Write(buffer[:n]); err != nil {
				return have, false, err
			}
			have += int64(n)
			r.report.fetched(have, size)
		}
		switch {
		case have > most:
			return have, false, runtime.Failf(runtime.DefectiveResult, "TOO_LARGE: The result has over %d bytes.", most)
		case errors.Is(err, io.EOF) && (size < 0 || have == size):
			return have, true, target.Truncate(have)
		case errors.Is(err, io.EOF):
			return have, false, &Unreachable{true, fmt.Errorf("the transfer ended after %d of %d bytes", have, size)}
		case err != nil && errors.Is(context.Cause(ctx), errStalled):
			return have, false, &Unreachable{true, errStalled}
		case err != nil:
			return have, false, &Unreachable{true, err}
		}
	}
}

// later are the refusals that say nothing of the result: the same call may soon succeed.
var later = []int{http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests}

// notHad is the failure of an attempt that could not get a film that is paid. The handle stays: the next attempt
// fetches it again, and a new submit would pay for another one.
func (r *run) notHad(cause error) error {
	delay := min(firstRefetch<<min(max(r.handle.Missed, 0), 10), lastRefetch)
	r.handle.Missed++
	if err := r.job.StoreHandle(r.handle.String()); err != nil {
		r.log("warn", err.Error())
	}
	return &runtime.Failure{Class: runtime.ProviderUnavailable, RetryAfterSeconds: int(delay.Seconds()),
		Message: "The video is paid, but could not be fetched. It is not submitted again. " + cause.Error()}
}

// The time between two attempts to fetch a film that is paid.
const (
	firstRefetch = 30 * time.Second
	lastRefetch  = 10 * time.Minute
)

// errLostFile is the refusal to hand out a result.
var errLostFile = errors.New("the engine no longer has the result")

var errStalled = fmt.Errorf("the transfer brought nothing for %s", stallLimit)
