package command

import (
	"bufio"
	"cmp"
	"context"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/program"
	"github.com/reelay/reelay/models/capacity"
	"golang.org/x/time/rate"
)

const (
	// logBurst and logEvery bound what a program logs in this process: list runs every few
	// seconds for each pool.
	logBurst = 20
	logEvery = 6 * time.Second
)

// limiter bounds the log of one program, over all of its calls.
type limiter struct {
	*rate.Limiter
	omitted int // lines since the last that was logged; guarded by the provider's mu
}

// stderrLog writes a program's standard error to the log.
type stderrLog struct {
	call    *call
	pool    string
	out     *slog.Logger
	last    string // the last line
	allowed func() (omitted int, ok bool)
}

func (p *Provider) logOf(c *call, pool *capacity.Pool) *stderrLog {
	return &stderrLog{call: c, pool: pool.Name, out: p.log(), allowed: func() (int, bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		l := p.logs[c.program]
		if l == nil {
			l = &limiter{Limiter: rate.NewLimiter(rate.Every(logEvery), logBurst)}
			p.logs[c.program] = l
		}
		if !l.Allow() {
			l.omitted++
			return 0, false
		}
		omitted := l.omitted
		l.omitted = 0
		return omitted, true
	}}
}

func (p *Provider) log() *slog.Logger { return cmp.Or(p.config.Log, slog.Default()) }

// read logs the lines of a standard error to its end.
func (l *stderrLog) read(from io.Reader) {
	lines := bufio.NewReaderSize(from, program.MaxLine)
	for {
		line, err := program.ReadLine(lines)
		l.call.watch(string(line))
		if shown := strings.TrimSpace(l.call.show(string(line))); shown != "" {
			l.last = shown
			if omitted, ok := l.allowed(); ok {
				l.out.Warn("a provider's program says", "program", l.call.program, "verb", l.call.verb, "pool", l.pool, "line", shown, "omitted",
					omitted)
			}
		}
		if err != nil {
			return
		}
	}
}

// noteStrangers logs once per pool that a program lists machines of others.
func (p *Provider) noteStrangers(ctx context.Context, c *call, pool *capacity.Pool, n int) {
	if n == 0 {
		return
	}
	p.mu.Lock()
	logged := p.strangers[pool.ID]
	p.strangers[pool.ID] = true
	p.mu.Unlock()
	if !logged {
		p.log().WarnContext(ctx, "a provider's program lists machines that are not the pool's: they are ignored", "program", c.program, "pool",
			pool.Name, "machines", n)
	}
}
