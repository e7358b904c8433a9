package agent

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"slices"
	"testing/synctest"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
)

// socket takes a worker's subscription over a connection that synctest knows.
func (c *control) socket(r *http.Request) (*http.Response, error) {
	near, far := net.Pipe()
	w := &upgrade{conn: far, header: http.Header{}, done: make(chan struct{})}
	go c.listenTo(w, r)
	<-w.done
	return &http.Response{
		StatusCode: http.StatusSwitchingProtocols, Status: "101 Switching Protocols", Header: w.header, Body: near, Request: r,
	}, nil
}

// frame is a message of graphql-transport-ws.
type frame struct {
	ID      string `json:"id,omitempty"`
	Type    string `json:"type"`
	Payload any    `json:"payload,omitempty"`
}

func (c *control) listenTo(w *upgrade, r *http.Request) {
	ctx := context.Background()
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"graphql-transport-ws"}})
	if err != nil {
		return
	}
	defer conn.CloseNow()
	for err == nil {
		var in frame
		err = wsjson.Read(ctx, conn, &in)
		switch in.Type {
		case "connection_init":
			_ = wsjson.Write(ctx, conn, frame{Type: "connection_ack"})
		case "subscribe":
			c.mu.Lock()
			c.sockets = append(c.sockets, conn)
			c.mu.Unlock()
		}
	}
}

// direct tells all workers that listen what is wanted of them.
func (c *control) direct(directive object) {
	synctest.Wait() // until they do
	c.mu.Lock()
	listening := slices.Clone(c.sockets)
	c.mu.Unlock()
	for _, conn := range listening {
		_ = wsjson.Write(context.Background(), conn, frame{ID: "1", Type: "next", Payload: object{"data": object{"workerDirectives": directive}}})
	}
}

// upgrade is a ResponseWriter that becomes a connection.
type upgrade struct {
	conn   net.Conn
	header http.Header
	done   chan struct{} // closed once the header is written
}

func (w *upgrade) Header() http.Header { return w.header }

func (w *upgrade) WriteHeader(int) { close(w.done) }

func (w *upgrade) Write(b []byte) (int, error) { return len(b), nil }

func (w *upgrade) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return w.conn, bufio.NewReadWriter(bufio.NewReader(w.conn), bufio.NewWriter(w.conn)), nil
}
