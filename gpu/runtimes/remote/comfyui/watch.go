package comfyui

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/reelay/reelay/gpu/runtimes/remote"
	"github.com/reelay/reelay/internal/comfy"
)

const (
	maxMessage = 8 << 20 // bytes of a message of the socket
	maxPerTick = 2000    // messages a second, over which the socket is closed for a moment
)

// Watch listens to the socket of the work's client id: ComfyUI sends the progress to no other.
func (e *Engine) Watch(ctx context.Context, key string, _ *remote.Job, hint func(remote.Hint)) error {
	header := http.Header{}
	if err := e.client.Sign(header); err != nil {
		return err
	}
	address := strings.Replace(e.client.URL("/ws?clientId="+url.QueryEscape(key)), "http", "ws", 1)
	socket, response, err := websocket.Dial(ctx, address, &websocket.DialOptions{HTTPClient: e.client.HTTP(), HTTPHeader: header})
	if response != nil && response.Body != nil {
		response.Body.Close()
	}
	if err != nil {
		return fmt.Errorf("open the socket of the engine: %w", err)
	}
	defer socket.CloseNow()
	socket.SetReadLimit(maxMessage)
	tick, messages := time.Now(), 0
	for {
		kind, data, err := socket.Read(ctx)
		if err != nil {
			return fmt.Errorf("read the socket of the engine: %w", err)
		}
		if messages++; time.Since(tick) > time.Second {
			tick, messages = time.Now(), 0
		} else if messages > maxPerTick {
			return errors.New("the engine floods its socket")
		}
		if kind == websocket.MessageBinary {
			if picture, extension := preview(data, key); picture != nil {
				hint(remote.Hint{Preview: picture, Extension: extension})
			}
			continue
		}
		e.event(data, key, hint)
	}
}

// event reads one message of the socket.
func (e *Engine) event(data []byte, key string, hint func(remote.Hint)) {
	var event struct {
		Type string `json:"type"`
		Data struct {
			ID    string   `json:"prompt_id"`
			Node  *string  `json:"node"`
			Nodes []string `json:"nodes"`
			Value float64  `json:"value"`
			Max   float64  `json:"max"`
		} `json:"data"`
	}
	if json.Unmarshal(data, &event) != nil || event.Data.ID != key && event.Data.ID != "" {
		// progress_state has an object as nodes, and says nothing that progress does not. Without an
		// id the event greets a new socket, which is that of this work alone.
		return
	}
	switch event.Type {
	case "execution_cached":
		e.pace.cached(event.Data.Nodes)
	case "executing":
		if event.Data.Node == nil {
			hint(remote.Hint{Poll: true})
			return
		}
		e.pace.node(*event.Data.Node)
		hint(remote.Hint{Progress: e.pace.status(0, 0)})
	case "progress":
		if event.Data.Node != nil {
			e.pace.node(*event.Data.Node)
		}
		hint(remote.Hint{Progress: e.pace.status(event.Data.Value, event.Data.Max)})
	case "execution_success", "execution_error", "execution_interrupted":
		hint(remote.Hint{Poll: true})
	}
}

// The kinds of binary messages.
const (
	previewImage         = 1
	previewImageWithMeta = 4
)

// preview returns the picture of a binary message and its extension, or nil.
func preview(data []byte, key string) (picture []byte, extension string) {
	if len(data) < 8 {
		return nil, ""
	}
	kind, second, rest := binary.BigEndian.Uint32(data), binary.BigEndian.Uint32(data[4:]), data[8:]
	switch kind {
	case previewImage:
		return rest, map[uint32]string{1: ".jpg", 2: ".png"}[second]
	case previewImageWithMeta:
		if uint64(second) > uint64(len(rest)) {
			return nil, ""
		}
		var meta struct {
			ID   string `json:"prompt_id"`
			Type string `json:"image_type"`
		}
		if json.Unmarshal(rest[:second], &meta) != nil || meta.ID != key {
			return nil, ""
		}
		return rest[second:], map[string]string{"image/jpeg": ".jpg", "image/png": ".png", "image/webp": ".webp"}[meta.Type]
	}
	return nil, ""
}

// pace measures how long the nodes of a model take, so that the progress of a run is that of its
// time and not of the number of its nodes.
type pace struct {
	mu    sync.Mutex
	times map[string]map[string]float64 // seconds of a node, by model and node

	// Of the present run:
	graph   comfy.Graph
	model   string
	done    map[string]bool
	current string
	since   time.Time
}

// begin starts to measure a run.
func (p *pace) begin(model string, graph comfy.Graph) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.graph, p.model, p.done, p.current = graph, model, map[string]bool{}, ""
}

// cached notes nodes that the engine does not run again.
func (p *pace) cached(nodes []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, node := range nodes {
		if p.done != nil {
			p.done[node] = true
		}
	}
}

// node notes that a node begins, and so that the one before has ended.
func (p *pace) node(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if id != p.current {
		p.next(id)
	}
}

func (p *pace) next(id string) {
	if p.current != "" && p.done != nil {
		p.done[p.current] = true
		if p.times == nil {
			p.times = map[string]map[string]float64{}
		}
		if p.times[p.model] == nil {
			p.times[p.model] = map[string]float64{}
		}
		took := time.Since(p.since).Seconds()
		if known, ok := p.times[p.model][p.current]; ok {
			took = known + (took-known)/4
		}
		p.times[p.model][p.current] = took
	}
	p.current, p.since = id, time.Now()
}

// end notes that the run has ended. Times of a run that failed are not complete.
func (p *pace) end(succeeded bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if succeeded {
		p.next("")
	}
	p.current = ""
}

// status returns the progress while the current node is at value of most.
func (p *pace) status(value, most float64) *remote.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &remote.Status{State: remote.Running, Done: -1}
	node := p.graph[p.current]
	if node == nil {
		return s
	}
	s.Message = node.Class
	if node.Meta != nil && node.Meta.Title != "" {
		s.Message = remote.Quote(node.Meta.Title)
	}
	part := 0.0
	if most > 0 && value >= 0 {
		part = min(value/most, 1)
		s.Step, s.Steps = int(value), int(most)
	}
	all, done := 0.0, 0.0
	for id := range p.graph {
		weight := p.weight(id)
		all += weight
		switch {
		case p.done[id]:
			done += weight
		case id == p.current:
			done += weight * part
		}
	}
	s.Done = done / all
	return s
}

// weight is the measured time of a node. While none is known, all nodes count the same.
func (p *pace) weight(id string) float64 {
	known := p.times[p.model]
	if len(known) == 0 {
		return 1
	}
	if seconds, ok := known[id]; ok {
		return max(seconds, 0.001)
	}
	return 0.001 // it was cached in each run so far
}
