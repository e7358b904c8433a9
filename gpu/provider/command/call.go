package command

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/internal/program"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/models/capacity"
)

const (
	// stopGrace is how long a program may take to end after SIGTERM.
	stopGrace = 2 * time.Second
	// maxLines and maxBytes bound the standard output of a call: far more than the machines
	// of a pool need.
	maxLines = 20_000
	maxBytes = 8 << 20
	// maxMessage bounds what of a program's own words is shown to operators, in bytes.
	maxMessage = 500
)

// call is one run of a program.
type call struct {
	program string
	verb    string
	asked   map[string]bool // the ids of the request; nil for a list
	secret  string          // must not be shown
	log     *stderrLog

	answers map[string]answer
	order   []string // the ids of answers, as they came
	problem string   // the first thing wrong with the output
	flood   error
	grace   time.Duration // between SIGTERM and SIGKILL
	late    bool          // it was killed because of the limit
	leaked  atomic.Bool   // it wrote the secret
}

// call runs a pool's program. The call is never nil, and has what the program wrote also if
// there is an error.
func (p *Provider) call(ctx context.Context, pool *capacity.Pool, r request) (c *call, err error) {
	c = &call{verb: r.Verb, answers: map[string]answer{}, secret: r.Environment["REELAY_API_KEY"], grace: stopGrace}
	if p.trial != nil {
		defer func() { p.trial.observe(c) }()
	}
	settings, err := readSettings(pool)
	if err != nil {
		return c, &fleet.ProviderError{Class: fleet.Invalid, Err: err}
	}
	c.program = settings.Program
	path, err := find(p.config.Folder, settings.Program)
	if err != nil {
		return c, err
	}
	if r.Verb != verbList {
		c.asked = map[string]bool{}
	}
	for _, i := range r.Instances {
		c.asked[i.ID] = true
	}
	c.log = p.logOf(c, pool)
	r.Pool, r.Options = describe(pool), optionsOf(settings)
	input, err := json.Marshal(r)
	if err != nil {
		return c, fmt.Errorf("encode the request to the program %s: %w", c.program, err)
	}
	if p.trial != nil {
		input, c.grace = p.trial.alter(input), p.trial.grace
	}
	limit := settings.limit(r.Verb)
	ctx, cancel := context.WithTimeoutCause(ctx, limit,
		fleet.Refuse(fleet.Transient, "the program %s was killed because its %s took longer than %s", c.program, c.verb, limit))
	defer cancel()
	return c, c.run(ctx, path, append(input, '\n'))
}

// run runs the program to its end.
func (c *call) run(ctx context.Context, path string, input []byte) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	command := exec.Command(path, c.verb)
	command.Dir, command.Env, command.Stdin = filepath.Dir(path), program.Environment(os.Environ()), bytes.NewReader(input)
	process, err := program.Start(command, func(out io.Reader) {
		if c.flood = c.read(out); c.flood != nil {
			cancel(c.flood)
			_, _ = io.Copy(io.Discard, out) // until the program is killed
		}
	}, c.log.read)
	if err != nil {
		return fleet.Refuse(fleet.Permission, "the program %s cannot be run: %s", c.program, reason(err))
	}
	select {
	case <-ctx.Done():
		process.Stop(c.grace)
		cause := context.Cause(ctx)
		c.late = c.flood == nil && errors.Is(ctx.Err(), context.DeadlineExceeded)
		if errors.Is(cause, context.Canceled) || errors.Is(cause, context.DeadlineExceeded) {
			cause = fleet.Refuse(fleet.Transient, "the program %s was killed because control did not wait for its %s any longer", c.program, c.verb)
		}
		return cause
	case err := <-process.Ended:
		return cmp.Or(c.flood, c.judge(err))
	}
}

// judge turns the end of the program into an error, or nil for success.
func (c *call) judge(err error) error {
	exit, ok := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return nil
	case !ok:
		return fleet.Refuse(fleet.Transient, "the program %s failed: %w", c.program, err)
	case exit.ExitCode() == unknownVerb:
		return fleet.Refuse(fleet.Invalid, "the program %s does not know the verb %s", c.program, c.verb)
	}
	what := fmt.Sprintf("ended with the status %d", exit.ExitCode())
	if waited, ok := exit.Sys().(syscall.WaitStatus); ok && waited.Signaled() {
		what = fmt.Sprintf("was ended by the signal %s", waited.Signal())
	}
	if c.log.last != "" {
		what += ": " + c.log.last
	}
	class := cmp.Or(statuses[exit.ExitCode()], fleet.Transient)
	return fleet.Refuse(class, "the program %s %s%s", c.program, what, c.because())
}

// read reads the standard output. It returns an error if there is too much of it.
func (c *call) read(out io.Reader) error {
	limited := &io.LimitedReader{R: out, N: maxBytes}
	lines := bufio.NewReaderSize(limited, program.MaxLine)
	for n := 1; ; n++ {
		line, err := program.ReadLine(lines)
		if n > maxLines || limited.N <= 0 {
			return fleet.Refuse(fleet.Transient, "the program %s was killed because it wrote more than %d lines or %d MiB", c.program, maxLines,
				maxBytes>>20)
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			c.line(line)
		}
		if err != nil {
			return nil
		}
	}
}

// line takes one line of the standard output. It keeps the first answer for each instance.
func (c *call) line(line []byte) {
	c.watch(string(line))
	a, err := readAnswer(line, c.verb)
	_, again := c.answers[a.ID]
	switch {
	case err != nil:
		c.wrong("a line of its output %v", err)
	case again:
		c.wrong("its output has two lines for the instance %s", a.ID)
	case c.asked != nil && !c.asked[a.ID]:
		c.wrong("its output names the instance %s, which was not asked for", a.ID)
	default:
		c.answers[a.ID] = a
		c.order = append(c.order, a.ID)
	}
}

func (c *call) wrong(format string, args ...any) {
	if c.problem == "" {
		c.problem = c.show(fmt.Sprintf(format, args...))
	}
}

// because explains an error by what is wrong with the output.
func (c *call) because() string {
	if c.problem == "" {
		return ""
	}
	return " (" + c.problem + ")"
}

// refusal returns an answer's error.
func (c *call) refusal(a answer) error {
	switch {
	case a.Error == nil:
		return nil
	case a.Error.Class == classGone:
		return fleet.ErrNoInstance
	}
	message := cmp.Or(c.show(a.Error.Message), "the program "+c.program+" gave no message")
	return &fleet.ProviderError{Class: a.Error.Class, ZonesAvailable: a.Error.ZonesAvailable, Err: errors.New(message)}
}

// watch notes whether a program's words have the key.
func (c *call) watch(words string) {
	if c.secret != "" && strings.Contains(words, c.secret) {
		c.leaked.Store(true)
	}
}

// show makes a program's words fit to be shown: short, printable, and without the key.
func (c *call) show(words string) string {
	if c.secret != "" {
		words = strings.ReplaceAll(words, c.secret, "[key]")
	}
	return text.Clip(text.Printable(strings.ToValidUTF8(words, "\uFFFD")), maxMessage)
}
