// Package wire speaks to the API with as little work as possible: over a connection that posts
// GraphQL requests, and over a socket that follows a subscription.
package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Conn is one keep-alive connection that posts GraphQL requests, one at a time. It does
// as little as possible, since it shares the machine with the Reelay that it measures.
type Conn struct {
	host string
	Head []byte // of a request, up to its length
	in   *bufio.Reader
	used time.Time // when it was last used
	out  []byte
	body []byte // the last answer

	mu  sync.Mutex
	net net.Conn // nil until it is needed
}

// idle is how long a connection can be unused before it is replaced, since a server closes
// idle connections.
const idle = 20 * time.Second

// NewConn returns a connection to a GraphQL API with a key.
func NewConn(host, key string) *Conn { return &Conn{host: host, Head: Head(host, key)} }

// ready returns the connection and connects if there is none or it was idle for too long.
func (c *Conn) ready() (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.net == nil || now.Sub(c.used) > idle {
		opened, err := net.DialTimeout("tcp", c.host, idle)
		if err != nil {
			return nil, err
		}
		if c.net != nil {
			c.net.Close()
		}
		c.net, c.in = opened, bufio.NewReaderSize(opened, 4<<10)
	}
	c.used = now
	return c.net, nil
}

// Close closes the connection and aborts a waiting request. The next request reconnects.
func (c *Conn) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.net != nil {
		c.net.Close()
	}
	c.net = nil
}

func Head(host, key string) []byte {
	return fmt.Appendf(nil, "POST /graphql HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nAccept: application/json\r\nContent-Length: ", host, key)
}

// ErrLater is an error of the API that can be retried later.
var ErrLater = errors.New("the API refused for now")

// ErrLost means that a lease expired because it was not renewed in time.
var ErrLost = errors.New("the lease is lost")

// ErrConflict means that something changed meanwhile, such as a job that was cancelled before its end.
var ErrConflict = errors.New("the API refused since something changed")

// Post sends one request and returns the answer, which is valid until the next call. An
// answer with errors is an error.
func (c *Conn) Post(body []byte) ([]byte, error) { return c.PostAs(c.Head, body) }

// PostAs is post with another head and its key.
func (c *Conn) PostAs(head, body []byte) ([]byte, error) {
	to, err := c.ready()
	if err != nil {
		return nil, err
	}
	c.out = append(append(c.out[:0], head...), strconv.Itoa(len(body))...)
	c.out = append(append(c.out, "\r\n\r\n"...), body...)
	status := 0
	if _, err = to.Write(c.out); err == nil {
		status, err = c.read()
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	c.used = time.Now() // it may have waited for long
	if bytes.Contains(c.body, []byte(`"retryAfterSeconds"`)) {
		return nil, fmt.Errorf("%w: %.500s", ErrLater, c.body)
	}
	if bytes.Contains(c.body, []byte(`"LEASE_LOST"`)) {
		return nil, ErrLost
	}
	if bytes.Contains(c.body, []byte(`"code":"CONFLICT"`)) {
		return nil, fmt.Errorf("%w: %.500s", ErrConflict, c.body)
	}
	if status != http.StatusOK || bytes.Contains(c.body, []byte(`"errors"`)) {
		return nil, fmt.Errorf("the API answered %d: %.500s", status, c.body)
	}
	return c.body, nil
}

// read reads one answer into c.body.
func (c *Conn) read() (status int, err error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if len(line) < 12 {
		return 0, fmt.Errorf("the API answered %q, which is no HTTP", line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, fmt.Errorf("the API answered %q, which is no HTTP", line)
	}
	size, chunked := 0, false
	for {
		if line, err = c.in.ReadSlice('\n'); err != nil {
			return 0, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(": "))
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if size, err = strconv.Atoi(string(value)); err != nil {
				return 0, err
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			chunked = true
		}
	}
	c.body = c.body[:0]
	if !chunked {
		return status, c.take(size)
	}
	return status, c.chunks()
}

// maxAnswer is far above the size of any expected answer.
const maxAnswer = 16 << 20

func (c *Conn) take(n int) error {
	if n < 0 || len(c.body)+n > maxAnswer {
		return fmt.Errorf("the API sent an answer of more than %d bytes", maxAnswer)
	}
	from := len(c.body)
	c.body = append(c.body, make([]byte, n)...)
	_, err := io.ReadFull(c.in, c.body[from:])
	return err
}

func (c *Conn) chunks() error {
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		n, err := strconv.ParseUint(string(bytes.TrimRight(line, "\r\n")), 16, 31)
		if err != nil {
			return err
		}
		if err := c.take(int(n)); err != nil {
			return err
		}
		if _, err := c.in.Discard(2); err != nil || n == 0 {
			return err
		}
	}
}

// Field returns the text of the first field with that name in a JSON answer. The text must
// not contain escapes. It is fast enough for a hot loop.
func Field(answer []byte, name string) (string, bool) {
	_, rest, found := bytes.Cut(answer, []byte(`"`+name+`":"`))
	value, _, ended := bytes.Cut(rest, []byte(`"`))
	return string(value), found && ended
}
