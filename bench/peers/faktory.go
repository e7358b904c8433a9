package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
)

// faktory is one connection to a Faktory server, in its own protocol (lines, and
// RESP's bulk strings).
type faktory struct {
	conn net.Conn
	in   *bufio.Reader
}

func openFaktory(ctx context.Context) (*faktory, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", os.Getenv("PEERS_FAKTORY"))
	if err != nil {
		return nil, err
	}
	f := &faktory{conn, bufio.NewReader(conn)}
	if _, err := f.read(); err != nil { // HI
		return nil, err
	}
	hello := fmt.Sprintf(`HELLO {"v":2,"hostname":"bench","wid":%q,"pid":%d,"labels":[]}`, rand.Text(), os.Getpid())
	_, err = f.call(hello)
	return f, err
}

// call sends one command and returns the answer.
func (f *faktory) call(command string) ([]byte, error) {
	if _, err := io.WriteString(f.conn, command+"\r\n"); err != nil {
		return nil, err
	}
	return f.read()
}

func (f *faktory) read() ([]byte, error) {
	line, err := f.in.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	line = bytes.TrimSpace(line)
	switch {
	case len(line) == 0:
		return nil, errors.New("Faktory sent an empty line")
	case line[0] == '-':
		return nil, fmt.Errorf("Faktory refused: %s", line[1:])
	case line[0] == '+':
		return line[1:], nil
	}
	size, err := strconv.Atoi(string(line[1:]))
	if err != nil || size < 0 { // $-1 means nil
		return nil, err
	}
	text := make([]byte, size+2)
	_, err = io.ReadFull(f.in, text)
	return text[:size], err
}

func faktoryJob(t task) map[string]any {
	return map[string]any{"jid": rand.Text(), "jobtype": "noop", "queue": "default", "args": []any{noopArgs{t.payload}}, "retry": 0}
}

func (f *faktory) push(t task) error {
	text, err := json.Marshal(faktoryJob(t))
	if err != nil {
		return err
	}
	_, err = f.call("PUSH " + string(text))
	return err
}

func (f *faktory) pushBulk(t task, n int) error {
	all := make([]any, n)
	for i := range all {
		all[i] = faktoryJob(t)
	}
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	_, err = f.call("PUSHB " + string(text))
	return err
}

// fetch returns the id of a job, or "" if there was none for two seconds.
func (f *faktory) fetch() (string, error) {
	text, err := f.call("FETCH default")
	if err != nil || len(text) == 0 {
		return "", err
	}
	var job struct{ Jid string }
	err = json.Unmarshal(text, &job)
	return job.Jid, err
}

func (f *faktory) ack(jid string) error {
	_, err := f.call(`ACK {"jid":"` + jid + `"}`)
	return err
}

// faktories opens connections to a server and removes all its jobs.
func faktories(ctx context.Context, n int) ([]*faktory, error) {
	all := make([]*faktory, n)
	for i := range all {
		var err error
		if all[i], err = openFaktory(ctx); err != nil {
			return nil, err
		}
	}
	_, err := all[0].call("FLUSH")
	return all, err
}

func closeFaktories(all []*faktory) {
	for _, f := range all {
		f.conn.Close()
	}
}

func faktoryPush(ctx context.Context, t task) (figures, error) {
	all, err := faktories(ctx, t.clients)
	if err != nil {
		return nil, err
	}
	defer closeFaktories(all)
	return callers(ctx, t, 1, func(_ context.Context, client int) error { return all[client].push(t) })
}

func faktoryPushBulk(ctx context.Context, t task) (figures, error) {
	all, err := faktories(ctx, t.clients)
	if err != nil {
		return nil, err
	}
	defer closeFaktories(all)
	return callers(ctx, t, bulkSize, func(_ context.Context, client int) error { return all[client].pushBulk(t, bulkSize) })
}

// faktoryWork lets workers fetch and acknowledge t.n jobs.
func faktoryWork(ctx context.Context, t task) (figures, error) {
	all, err := faktories(ctx, t.clients)
	if err != nil {
		return nil, err
	}
	defer closeFaktories(all)
	for left := t.n; left > 0; left -= 1000 {
		if err := all[0].pushBulk(t, min(left, 1000)); err != nil {
			return nil, err
		}
	}
	done := newCountdown(t.n)
	group, working := errgroup.WithContext(ctx)
	began := time.Now()
	for _, f := range all {
		group.Go(func() error {
			for time.Since(began) < t.span && working.Err() == nil {
				select {
				case <-done.done:
					return nil
				default:
				}
				jid, err := f.fetch()
				if err == nil && jid != "" {
					if err = f.ack(jid); err == nil {
						done.one()
					}
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	result, err := done.rate(ctx, began, t.span)
	return result, errors.Join(err, group.Wait())
}

func faktoryPickup(ctx context.Context, t task) (figures, error) {
	all, err := faktories(ctx, 3)
	if err != nil {
		return nil, err
	}
	taken := make(chan time.Time, 1)
	ctx, end := context.WithCancel(ctx)
	defer end()
	var group errgroup.Group
	for _, f := range all[1:] {
		group.Go(func() error {
			for {
				jid, err := f.fetch()
				if err == nil && jid != "" {
					taken <- time.Now()
					err = f.ack(jid)
				}
				if ctx.Err() != nil {
					return nil
				}
				if err != nil {
					return err
				}
			}
		})
	}
	result, err := oneByOne(ctx, t, taken, func(context.Context) error { return all[0].push(t) })
	end()
	closeFaktories(all)
	return result, errors.Join(err, group.Wait())
}
