package job

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/console/address"
	"github.com/reelay/reelay/web/console/shell"
)

const (
	// logPart is how much of a log a page shows, and logSearched how much of it one search reads.
	logPart     = 256 << 10
	logSearched = 8 << 20
	// logMatches is how many lines a search shows.
	logMatches = 500
	// maxLogQuery bounds what is searched for, in bytes.
	maxLogQuery = 200
)

// logView is a part of the log of one attempt, or what a search found in it.
type logView struct {
	Job     models.JobID
	Attempt *models.Attempt
	// Log is nil as long as the worker has not uploaded it, and once it is deleted.
	Log *models.Artifact
	// Live means that the text is what the worker sent while the attempt ran.
	Live bool
	// From and To are the part that was read.
	From, To int64
	Query    string
	Text     string
	Lines    []logLine // of a search
	// Full means that a search found more lines in the part that was read.
	Full bool
	// Follow reloads the log while the attempt runs.
	Follow bool
}

// logLine is a line with what a search found in it.
type logLine []logPiece

type logPiece struct {
	Text string
	Hit  bool
}

func (c *controller) jobLog(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	v, err := c.readLog(r, p)
	if err != nil {
		return err
	}
	if have := r.URL.Query().Get("have"); have != "" && v.Live && v.Follow && have == strconv.FormatInt(v.To, 10) {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	if r.URL.Query().Get("part") != "" {
		return shell.Render(w, r, http.StatusOK, logPartOf(v))
	}
	return shell.Render(w, r, http.StatusOK, logPage(v))
}

func (c *controller) readLog(r *http.Request, p jobs.Principal) (*logView, error) {
	asked := r.URL.Query()
	a, err := c.Reads.Jobs.Attempt(r.Context(), p, models.AttemptID(r.PathValue("attempt")))
	if err != nil {
		return nil, err
	}
	if a.JobID != jobID(r) {
		return nil, apierror.NotFound("attempt")
	}
	v := &logView{Job: a.JobID, Attempt: a, Query: text.Clip(asked.Get("q"), maxLogQuery), Follow: a.EndedAt.IsZero() &&
		asked.Get("follow") != "0"}
	if a.LogID != "" {
		v.Log, err = c.Reads.Jobs.Artifact(r.Context(), p, a.LogID)
	}
	if err != nil && !apierror.HasCode(err, apierror.CodeNotFound) {
		return nil, err
	}
	if v.Log == nil || err != nil {
		v.Log = nil
		return v, c.readLive(r.Context(), p, v)
	}
	v.To = v.Log.SizeBytes
	if end, err := strconv.ParseInt(asked.Get("end"), 10, 64); err == nil && end > 0 {
		v.To, v.Follow = min(end, v.To), false
	}
	if v.Query != "" {
		err = c.searchLog(r.Context(), v)
	} else {
		v.Text, v.From, err = c.readLogPart(r.Context(), v.Log, v.To)
	}
	if errors.Is(err, jobs.ErrNoObject) {
		v.Log, err = nil, nil
	}
	return v, err
}

// readLive reads what the worker has sent of the log of a running attempt, or of one that ended
// without a log.
func (c *controller) readLive(ctx context.Context, p jobs.Principal, v *logView) error {
	log, err := c.Reads.Jobs.LiveLog(ctx, p, v.Attempt.ID, 0)
	if err != nil || log.Text == "" {
		return err
	}
	v.Live, v.From, v.To, v.Text = true, log.End-int64(len(log.Text)), log.End, plainLog(log.Text)
	if v.Query == "" {
		return nil
	}
	wanted, err := wantedInLog(v.Query)
	if err != nil {
		return err
	}
	v.Lines = matchingLines(v.Text, wanted)
	v.Lines = v.Lines[max(len(v.Lines)-logMatches, 0):]
	return nil
}

// readLogPart reads the whole lines of a log before an offset, at most logPart bytes, and returns
// the offset of the first one. A longer line is cut.
func (c *controller) readLogPart(ctx context.Context, log *models.Artifact, end int64) (string, int64, error) {
	from := max(end-logPart, 0)
	if end <= from {
		return "", from, nil
	}
	in, err := c.Logs.OpenRange(ctx, log.ObjectKey, from, end-from)
	if err != nil {
		return "", 0, err
	}
	defer in.Close()
	data, err := io.ReadAll(io.LimitReader(in, logPart))
	if err != nil {
		return "", 0, fmt.Errorf("read log %s: %w", log.ID, err)
	}
	if from > 0 {
		if _, whole, ok := strings.Cut(string(data), "\n"); ok && whole != "" {
			return plainLog(whole), end - int64(len(whole)), nil
		}
	}
	return plainLog(string(data)), from, nil
}

// plainLog makes a log safe to show. Of a line that its program has overwritten, such as a
// progress bar, it keeps the newest version.
func plainLog(log string) string {
	log = strings.ReplaceAll(log, "\r\n", "\n")
	if strings.Contains(log, "\r") {
		lines := strings.Split(log, "\n")
		for i, line := range lines {
			line = strings.TrimRight(line, "\r")
			lines[i] = line[strings.LastIndexByte(line, '\r')+1:]
		}
		log = strings.Join(lines, "\n")
	}
	return text.Printable(log)
}

// searchLog looks for the query in the log, from the end on, until it has enough lines or has
// read enough. Letters count as equal in either case.
func (c *controller) searchLog(ctx context.Context, v *logView) error {
	wanted, err := wantedInLog(v.Query)
	if err != nil {
		return err
	}
	v.From = v.To
	for v.From > 0 && v.To-v.From < logSearched && len(v.Lines) < logMatches {
		part, from, err := c.readLogPart(ctx, v.Log, v.From)
		if err != nil {
			return err
		}
		v.Lines, v.From = append(matchingLines(part, wanted), v.Lines...), from
	}
	if extra := len(v.Lines) - logMatches; extra > 0 {
		v.Lines, v.Full = v.Lines[extra:], true
	}
	return nil
}

// wantedInLog matches the query, with letters of either case.
func wantedInLog(query string) (*regexp.Regexp, error) {
	wanted, err := regexp.Compile("(?i)" + regexp.QuoteMeta(query))
	if err != nil {
		return nil, fmt.Errorf("compile a search: %w", err)
	}
	return wanted, nil
}

func matchingLines(part string, wanted *regexp.Regexp) (found []logLine) {
	for line := range strings.Lines(part) {
		if at := wanted.FindAllStringIndex(line, -1); len(at) > 0 {
			found = append(found, piecesOf(strings.TrimRight(line, "\n"), at))
		}
	}
	return found
}

// piecesOf cuts a line at what was found.
func piecesOf(line string, found [][]int) (pieces logLine) {
	end := 0
	for _, at := range found {
		from, to := min(at[0], len(line)), min(at[1], len(line))
		pieces = append(pieces, logPiece{line[end:from], false}, logPiece{line[from:to], true})
		end = to
	}
	return append(pieces, logPiece{line[end:], false})
}

// href returns the address of the log with these changes of its arguments.
func (v *logView) href(pairs ...string) string {
	args := url.Values{}
	if v.Query != "" {
		args.Set("q", v.Query)
	}
	for i := 0; i < len(pairs); i += 2 {
		args.Set(pairs[i], pairs[i+1])
	}
	path := fmt.Sprintf("%s/log/%s", address.Job(v.Job), v.Attempt.ID)
	if len(args) == 0 {
		return path
	}
	return path + "?" + args.Encode()
}

// earlier returns the address of the part before this one, or "".
func (v *logView) earlier() []string {
	if v.Log == nil || v.From <= 0 {
		return nil
	}
	return []string{"end", strconv.FormatInt(v.From, 10)}
}

// logPath returns the address of an attempt's log.
func (v *jobView) logPath(a *models.Attempt) string {
	return fmt.Sprintf("%s/log/%s", address.Job(v.ID), a.ID)
}

// newestLog returns the newest attempt with a log, or that has not ended, or nil.
func (v *jobView) newestLog() *models.Attempt {
	for _, a := range slices.Backward(v.Attempts) {
		if a.LogID != "" || a.EndedAt.IsZero() {
			return a
		}
	}
	return nil
}
