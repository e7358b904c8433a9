package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"time"

	"github.com/reelay/reelay/bench/wire"
)

// member is one worker of a crew, one call at a time.
type member struct {
	*crew
	worker
	hand *hand
	step int
	out  []byte
}

// live works until ctx ends.
func (m *member) live(ctx context.Context) error {
	defer context.AfterFunc(ctx, m.hand.conn.Close)()
	if pause(ctx, rand.N(fleetReport)) != nil { // the connections do not open all at once
		return nil
	}
	for broken := 0; ctx.Err() == nil; {
		err := m.wait()
		if err == nil && m.hand.held != (lease{}) {
			m.holding.Add(1)
			err = m.work(ctx)
			m.holding.Add(-1)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, wire.ErrLater):
			m.later.Add(1)
			_ = pause(ctx, time.Second+rand.N(time.Second))
		case errors.Is(err, wire.ErrLost):
			if m.measuring.Load() {
				m.lost.Add(1)
			}
			m.hand.held = lease{}
		case asNetError(err) && broken < mostBroken:
			broken++
			m.broken.Add(1)
			_ = pause(ctx, 250*time.Millisecond<<broken-rand.N(125*time.Millisecond<<broken))
			continue
		case err != nil:
			return fmt.Errorf("work as %s: %w", m.id, err)
		}
		broken = 0
	}
	return nil
}

// mostBroken is how many connections in a row may fail of one worker, which then opens another, as
// an agent does.
const mostBroken = 5

func asNetError(err error) bool {
	_, ok := errors.AsType[net.Error](err)
	return ok || errors.Is(err, io.EOF)
}

// wait asks for a job, unless the worker has one, and waits for it up to 20 s.
func (m *member) wait() error {
	if m.hand.held != (lease{}) {
		return nil
	}
	answer, err := m.hand.conn.Post(m.hand.lease)
	if err == nil {
		m.hand.held = leaseIn(answer)
	}
	return err
}

// work makes the calls of a worker for its job until the job's end, and leases the next one.
func (m *member) work(ctx context.Context) error {
	now := time.Now()
	beat, report := now.Add(fleetBeat), now.Add(rand.N(fleetReport))
	end := now.Add(time.Duration(rand.ExpFloat64() * float64(fleetJob)))
	for {
		due := beat
		for _, other := range []time.Time{report, end} {
			if other.Before(due) {
				due = other
			}
		}
		if pause(ctx, time.Until(due)) != nil {
			return nil
		}
		var err error
		switch due {
		case end:
			if m.measuring.Load() {
				m.ends.Add(1)
			}
			m.ended <- struct{}{}
			_, err = m.hand.cycle(true)
			return err
		case report:
			m.step++
			err = m.call(progressQuery, `,"percent":`+strconv.Itoa(m.step%100)+`,"phase":"RENDERING"`, &m.reports, due)
			report = due.Add(fleetReport)
		default:
			err = m.call(heartbeatQuery, "", &m.beats, due)
			beat = due.Add(fleetBeat)
		}
		if errors.Is(err, wire.ErrLater) {
			m.later.Add(1)
			beat = time.Now().Add(time.Second + rand.N(time.Second))
		} else if err != nil {
			return err
		}
	}
}

// call makes a call for the job and records how long it took since it was due.
func (m *member) call(query, more string, into *times, due time.Time) error {
	m.out = append(m.out[:0], `{"query":"`...)
	m.out = append(append(m.out, query...), `","variables":{"input":{"attemptId":"`...)
	m.out = append(append(m.out, m.hand.held.attempt...), `","fencingToken":"`...)
	m.out = append(append(append(m.out, m.hand.held.token...), `"`...), more...)
	_, err := m.hand.conn.Post(append(m.out, `}}}`...))
	if err == nil && m.measuring.Load() {
		into.add(due)
	}
	return err
}
