package wire

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// Socket follows one subscription, such as the events of one job. It does as little as possible, since
// thousands of sockets share the machine with the Reelay that they measure.
type Socket struct {
	Conn net.Conn
	in   *bufio.Reader
	text []byte // the last message
}

const (
	eventsQuery = `subscription jobEvents($jobId: ID!, $afterSeq: Int!) { jobEvents(jobId: $jobId, afterSeq: $afterSeq) ` +
		`{ seq type attemptId payload createdAt } }`
	bufferSize = 512
	// maxMessage is far above the size of a progress event.
	maxMessage = 16 << 10
)

// OpenEvents opens a socket, authenticates, and follows a job from its first event.
func OpenEvents(ctx context.Context, endpoint *url.URL, key, job string) (*Socket, error) {
	return OpenSocket(ctx, endpoint, key, eventsQuery, map[string]any{"jobId": job, "afterSeq": 0})
}

// OpenSocket opens a socket, authenticates, and subscribes.
func OpenSocket(ctx context.Context, endpoint *url.URL, key, query string, variables map[string]any) (_ *Socket, err error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", endpoint.Host)
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	l := &Socket{Conn: conn, in: bufio.NewReaderSize(conn, bufferSize)}
	defer func() {
		if err != nil {
			err = errors.Join(err, conn.Close())
		}
	}()
	if err := l.upgrade(endpoint); err != nil {
		return nil, err
	}
	if err := l.Send(map[string]any{"type": "connection_init", "payload": map[string]any{"Authorization": "Bearer " + key}}); err != nil {
		return nil, err
	}
	if text, err := l.Next(); err != nil || !bytes.Contains(text, []byte(`"connection_ack"`)) {
		return nil, fmt.Errorf("the API did not accept the socket: %q %w", text, err)
	}
	return l, l.Send(map[string]any{"type": "subscribe", "id": "1", "payload": map[string]any{
		"query": query, "variables": variables,
	}})
}

func (l *Socket) upgrade(endpoint *url.URL) error {
	_, err := fmt.Fprintf(l.Conn, "GET /graphql HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: graphql-transport-ws\r\nSec-WebSocket-Key: cmVlbGF5LWJlbmNoLTAwMQ==\r\n\r\n",
		endpoint.Host)
	if err != nil {
		return err
	}
	response, err := http.ReadResponse(l.in, nil)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		return fmt.Errorf("the API answered %s to a socket", response.Status)
	}
	return nil
}

// Send writes one text frame, masked with zeros.
func (l *Socket) Send(message any) error {
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	frame := append([]byte{0x81, 0x80 | 126, byte(len(text) >> 8), byte(len(text)), 0, 0, 0, 0}, text...)
	if len(text) < 126 {
		frame = append([]byte{0x81, 0x80 | byte(len(text)), 0, 0, 0, 0}, text...)
	}
	_, err = l.Conn.Write(frame)
	return err
}

// Next returns the next message, which is valid until the next call.
func (l *Socket) Next() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(l.in, head[:2]); err != nil {
		return nil, err
	}
	size := int(head[1])
	if size == 126 {
		if _, err := io.ReadFull(l.in, head[2:]); err != nil {
			return nil, err
		}
		size = int(binary.BigEndian.Uint16(head[2:]))
	}
	if head[0] != 0x81 || size > maxMessage || head[1] > 126 {
		return nil, fmt.Errorf("the API sent a frame that begins with % x, which closes the socket or is not a short text", head[:2])
	}
	if cap(l.text) < size {
		l.text = make([]byte, size)
	}
	l.text = l.text[:size]
	_, err := io.ReadFull(l.in, l.text)
	return l.text, err
}

var (
	Pong         = map[string]any{"type": "pong"}
	benchCreated = []byte(`"createdAt":"`)
)

// Listen calls heard with every event until the job has ended: whether the measurement
// caused the event, and the time since it was written.
func (l *Socket) Listen(heard func(happened bool, late time.Duration)) error {
	for {
		text, err := l.Next()
		at := time.Now()
		switch {
		case err != nil:
			return err
		case bytes.Contains(text, []byte(`"type":"next"`)):
			_, rest, _ := bytes.Cut(text, benchCreated)
			created, _, _ := bytes.Cut(rest, []byte(`"`))
			written, err := time.Parse(time.RFC3339Nano, string(created))
			if err != nil {
				return fmt.Errorf("the API sent %q, which is not an event: %w", text, err)
			}
			happened := bytes.Contains(text, []byte(`"PROGRESS"`)) || bytes.Contains(text, []byte(`"CANCELLED"`))
			heard(happened, at.Sub(written))
		case bytes.Contains(text, []byte(`"type":"complete"`)):
			return nil
		case bytes.Contains(text, []byte(`"type":"ping"`)):
			if err := l.Send(Pong); err != nil {
				return err
			}
		default:
			return fmt.Errorf("the API ended a subscription: %q", text)
		}
	}
}
