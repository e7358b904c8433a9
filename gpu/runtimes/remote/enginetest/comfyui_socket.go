package enginetest

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"net/http"

	"github.com/coder/websocket"
)

// socket is the connection of a client.
type socket struct {
	messages chan message
	drop     context.CancelFunc
}

type message struct {
	kind websocket.MessageType
	data []byte
}

// DropSockets closes all websockets without a word.
func (c *ComfyUI) DropSockets() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.sockets {
		s.drop()
	}
}

// Flood makes the engine send each event so many times more.
func (c *ComfyUI) Flood(times int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flood = times
}

func (c *ComfyUI) serveSocket(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer conn.CloseNow()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	client := r.URL.Query().Get("clientId")
	s := &socket{messages: make(chan message, 1<<16), drop: cancel}

	c.mu.Lock()
	killed := c.kill
	c.sockets[client] = s // one that the client had before gets nothing more
	c.sendTo(s, "status", object{"status": c.remaining(), "sid": client})
	for _, p := range c.prompts {
		if p.client == client && p.task == c.line.running {
			c.sendTo(s, "executing", object{"node": p.currentNode})
		}
	}
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.sockets[client] == s {
			delete(c.sockets, client)
		}
	}()

	go func() {
		defer cancel()
		for {
			_, text, err := conn.Read(ctx)
			if err != nil {
				return
			}
			var told struct{ Type string }
			if json.Unmarshal(text, &told) == nil && told.Type == "feature_flags" {
				c.mu.Lock()
				c.sendTo(s, "feature_flags", features)
				c.mu.Unlock()
			}
		}
	}()
	for {
		select {
		case m := <-s.messages:
			if conn.Write(ctx, m.kind, m.data) != nil {
				return
			}
		case <-ctx.Done():
			return
		case <-killed:
			return
		}
	}
}

func (c *ComfyUI) sendTo(s *socket, kind string, data object) {
	c.sendTimes(s, 1, kind, data)
}

func (c *ComfyUI) sendTimes(s *socket, times int, kind string, data object) {
	text, err := json.Marshal(object{"type": kind, "data": data})
	if err != nil {
		c.t.Error(err)
		return
	}
	for range times {
		s.send(websocket.MessageText, text)
	}
}

// send drops what a slow client does not fetch.
func (s *socket) send(kind websocket.MessageType, data []byte) {
	select {
	case s.messages <- message{kind, data}:
	default:
	}
}

// tell sends an event to the client that submitted a prompt.
func (c *ComfyUI) tell(p *prompt, kind string, data object) {
	if s := c.sockets[p.client]; s != nil {
		c.sendTimes(s, c.flood+1, kind, data) // encoded once: a flood must not keep the fake from answering
	}
}

// tellAll sends the length of the queue to everybody.
func (c *ComfyUI) tellAll() {
	for _, s := range c.sockets {
		c.sendTo(s, "status", object{"status": c.remaining()})
	}
}

// jpeg is the beginning of a picture, by which its type is known.
const jpeg = "\xff\xd8\xff\xe0\x00\x10JFIF\x00"

// preview sends a picture with its metadata.
func (c *ComfyUI) preview(p *prompt, node string) {
	s := c.sockets[p.client]
	if s == nil {
		return
	}
	header, err := json.Marshal(object{
		"node_id": node, "prompt_id": p.id, "image_type": "image/jpeg",
		"display_node_id": node, "parent_node_id": nil, "real_node_id": node,
	})
	if err != nil {
		c.t.Error(err)
		return
	}
	data := binary.BigEndian.AppendUint32(nil, 4)
	data = binary.BigEndian.AppendUint32(data, uint32(len(header)))
	s.send(websocket.MessageBinary, append(append(data, header...), jpeg...))
}
