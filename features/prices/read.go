package prices

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/program"
	"github.com/reelay/reelay/internal/text"
)

const (
	// readLimit bounds a reading of a source.
	readLimit = 20 * time.Second
	// stopGrace is how long a program may take to end after SIGTERM.
	stopGrace = 2 * time.Second
	// maxWords bounds what of a program's own words is shown, in bytes.
	maxWords = 200
)

// errTooLong is the cause when a source has not answered in time.
var errTooLong = errors.New("it did not answer in time")

// read returns what a source says. The document's time is that of the file if it states none;
// then it never becomes stale: stays is true.
func (s *Source) read(ctx context.Context, limit time.Duration) (d *document, stays bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errTooLong)
	defer cancel()
	var data []byte
	var changed time.Time
	switch {
	case s.File != "":
		data, changed, err = readFile(s.File)
	case s.URL != "":
		data, err = get(ctx, s.URL)
	default:
		data, err = run(ctx, s.Command)
	}
	if err != nil {
		return nil, false, err
	}
	if d, err = parse(data, s.File != ""); err != nil {
		return nil, false, err
	}
	if d.at.IsZero() {
		d.at, stays = changed, true
	}
	return d, stays, nil
}

// readFile reads a regular file: to open another one could take for ever.
func readFile(path string) (data []byte, changed time.Time, err error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, changed, fmt.Errorf("its file cannot be read: %w", err)
	case !info.Mode().IsRegular():
		return nil, changed, fmt.Errorf("%s is not a regular file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, changed, fmt.Errorf("its file cannot be read: %w", err)
	}
	defer file.Close()
	data, err = io.ReadAll(io.LimitReader(file, maxBytes+1))
	return data, info.ModTime(), err
}

// client follows no redirects: the configuration says where prices come from.
var client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// get reads a URL. Its errors do not show the URL, which may hold a password.
func get(ctx context.Context, from string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from, http.NoBody)
	if err != nil {
		return nil, errors.New("its URL is malformed")
	}
	request.Header.Set("Accept", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return nil, withoutURL(ctx, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("its URL answered with the status %d", response.StatusCode)
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, maxBytes+1))
	if err != nil {
		return nil, withoutURL(ctx, err)
	}
	return data, nil
}

func withoutURL(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if in, ok := errors.AsType[*url.Error](err); ok {
		err = in.Err
	}
	return fmt.Errorf("its URL cannot be read: %w", err)
}

// run runs a program, and returns its standard output. The program has the environment of this
// process without Reelay's own variables.
func run(ctx context.Context, arguments []string) ([]byte, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	command := exec.Command(arguments[0], arguments[1:]...)
	command.Env = program.Environment(os.Environ())
	var output bytes.Buffer
	var last string
	process, err := program.Start(command, func(out io.Reader) {
		if n, _ := io.Copy(&output, io.LimitReader(out, maxBytes+1)); n > maxBytes {
			cancel(fmt.Errorf("its program was killed, because it wrote more than %d bytes", maxBytes))
			_, _ = io.Copy(io.Discard, out) // until the program is killed
		}
	}, func(from io.Reader) { last = lastLine(from) })
	if err != nil {
		return nil, fmt.Errorf("its program cannot be run: %w", err)
	}
	select {
	case <-ctx.Done():
		process.Stop(stopGrace)
		return nil, context.Cause(ctx)
	case err = <-process.Ended:
	}
	if err != nil {
		return nil, fmt.Errorf("its program failed: %s", cmp.Or(last, err.Error()))
	}
	return output.Bytes(), nil
}

// lastLine reads to the end, and returns the last line that is not empty.
func lastLine(from io.Reader) (last string) {
	lines := bufio.NewReaderSize(from, program.MaxLine)
	for {
		line, err := program.ReadLine(lines)
		if words := strings.TrimSpace(string(line)); words != "" {
			last = text.Clip(text.Printable(strings.ToValidUTF8(words, "\uFFFD")), maxWords)
		}
		if err != nil {
			return last
		}
	}
}
