package enginetest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// ComfyUI is a fake of ComfyUI's native API. Its output folder outlives a kill, as the real one's.
type ComfyUI struct {
	server
	newer   bool
	nodes   map[string]nodeInfo
	number  int
	prompts []*prompt // those that wait or run
	history []*prompt
	cache   map[string]object // outputs by the signature of a node, of the last run
	sockets map[string]*socket
	flood   int
}

// prompt is a job of ComfyUI.
type prompt struct {
	number      int
	id, client  string
	graph       graph
	created     int64
	outputs     []string // the nodes that give files
	order       []string // all nodes on the way to them
	task        *task
	slow        string // the node that takes the steps
	cached      []string
	results     map[string]object
	messages    []any
	succeeded   bool
	executed    []string
	progressed  object
	currentNode string
}

// NewComfyUI starts a fake of ComfyUI 0.3.75.
func NewComfyUI(t testing.TB) *ComfyUI {
	c := &ComfyUI{server: server{t: t}, nodes: recordedNodes(t)}
	c.boot = func() {
		c.number, c.prompts, c.history = 0, nil, nil
		c.cache, c.sockets = map[string]object{}, map[string]*socket{}
	}
	mux := http.NewServeMux()
	for pattern, handle := range map[string]http.HandlerFunc{
		"GET /system_stats":          c.stats,
		"GET /features":              func(w http.ResponseWriter, _ *http.Request) { respond(w, 200, features) },
		"GET /prompt":                func(w http.ResponseWriter, _ *http.Request) { respond(w, 200, c.remaining()) },
		"POST /prompt":               c.submit,
		"GET /queue":                 c.queue,
		"POST /queue":                c.editQueue,
		"POST /interrupt":            c.interrupt,
		"GET /history":               c.historyPage,
		"GET /history/{id}":          c.historyPage,
		"POST /history":              func(w http.ResponseWriter, _ *http.Request) { empty(w, http.StatusOK) },
		"POST /free":                 c.free,
		"GET /object_info":           c.objectInfo,
		"GET /object_info/{class}":   c.objectInfo,
		"GET /view":                  c.view,
		"POST /upload/image":         c.upload,
		"POST /api/jobs/{id}/cancel": c.cancelJob,
		"GET /api/jobs/{id}":         c.job,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return // the client has left
			}
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			c.mu.Lock()
			defer c.mu.Unlock()
			handle(w, r)
		})
	}
	mux.HandleFunc("GET /ws", c.serveSocket)
	c.start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Origin") != "" {
			empty(w, http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	return c
}

// Newer makes it a ComfyUI of mid-2026, after its source: ids of prompts have to be canonical UUIDs, and
// /api/jobs is there.
func (c *ComfyUI) Newer(newer bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.newer = newer
}

// Lacks removes a class of nodes, as on an engine without a custom node.
func (c *ComfyUI) Lacks(class string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.nodes, class)
}

// Offers sets the values that an input of a class can have, such as the names of model files.
func (c *ComfyUI) Offers(class, input string, values ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, group := range []string{"required", "optional"} {
		inputs, _ := c.nodes[class].Input[group]
		if _, ok := inputs[input]; ok {
			inputs[input] = []any{values}
		}
	}
}

var features = object{"supports_preview_metadata": true, "max_upload_size": 104857600}

func text(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

func empty(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "application/octet-stream")
	w.WriteHeader(status)
}

func (c *ComfyUI) stats(w http.ResponseWriter, _ *http.Request) {
	version := "0.3.75"
	if c.newer {
		version = "0.38.1"
	}
	respond(w, http.StatusOK, object{
		"system": object{
			"os": "posix", "ram_total": 25e9, "ram_free": 20e9, "comfyui_version": version, "required_frontend_version": "1.32.9",
			"installed_templates_version": nil, "required_templates_version": "0.7.25", "python_version": "3.11.7",
			"pytorch_version": "2.9.1", "embedded_python": false, "argv": []string{"main.py"},
		},
		"devices": []object{{
			"name": "cpu", "type": "cpu", "index": nil, "vram_total": 25e9, "vram_free": 20e9,
			"torch_vram_total": 25e9, "torch_vram_free": 20e9,
		}},
	})
}

func (c *ComfyUI) remaining() object {
	return object{"exec_info": object{"queue_remaining": len(c.prompts)}}
}

func (c *ComfyUI) submit(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Prompt   graph  `json:"prompt"`
		ID       string `json:"prompt_id"`
		ClientID string `json:"client_id"`
	}
	if json.NewDecoder(r.Body).Decode(&req) != nil {
		text(w, http.StatusInternalServerError, "500 Internal Server Error\n\nServer got itself in trouble")
		return
	}
	c.number++
	if req.Prompt == nil {
		refusePrompt(w, "no_prompt", "No prompt provided", "No prompt provided", nil)
		return
	}
	if parsed, err := uuid.Parse(req.ID); c.newer && req.ID != "" && (err != nil || parsed.String() != req.ID) {
		refusePrompt(w, "invalid_prompt_id", "prompt_id must be a valid UUID",
			"prompt_id must be a UUID string in canonical lowercase hyphenated form; omit it to let the server generate one", nil)
		return
	}
	found := c.check(req.Prompt)
	if found.kind != "" {
		refusePrompt(w, found.kind, found.message, found.details, found.errors)
		return
	}
	p := &prompt{
		number: c.number - 1, id: cmp.Or(req.ID, uuid.NewString()), client: req.ClientID, graph: req.Prompt,
		created: time.Now().UnixMilli(), outputs: found.outputs, order: req.Prompt.order(found.outputs),
		results: map[string]object{}, progressed: object{}, executed: []string{},
	}
	c.plan(p)
	respond(w, http.StatusOK, object{"prompt_id": p.id, "number": p.number, "node_errors": found.errors})
	c.prompts = append(c.prompts, p)
	c.tellAll()
	c.line.add(p.task)
}

func refusePrompt(w http.ResponseWriter, kind, message, details string, errors object) {
	if errors == nil {
		errors = object{}
	}
	respond(w, http.StatusBadRequest, object{
		"error":       object{"type": kind, "message": message, "details": details, "extra_info": object{}},
		"node_errors": errors,
	})
}

// item is a prompt in the queue and in the history.
func (p *prompt) item() []any {
	return []any{p.number, p.id, p.graph, object{"client_id": p.client, "create_time": p.created}, p.outputs}
}

func (c *ComfyUI) queue(w http.ResponseWriter, _ *http.Request) {
	running, pending := [][]any{}, [][]any{}
	for _, p := range c.prompts {
		if p.task == c.line.running {
			running = append(running, p.item())
		} else {
			pending = append(pending, p.item())
		}
	}
	respond(w, http.StatusOK, object{"queue_running": running, "queue_pending": pending})
}

func (c *ComfyUI) editQueue(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Delete []string `json:"delete"`
		Clear  bool     `json:"clear"`
	}
	_ = json.NewDecoder(r.Body).Decode(&req) // a bad one edits nothing
	for _, id := range req.Delete {
		c.drop(func(p *prompt) bool { return p.id == id })
	}
	for req.Clear && c.drop(func(*prompt) bool { return true }) {
		continue
	}
	empty(w, http.StatusOK)
}

// drop removes the first prompt that waits and matches.
func (c *ComfyUI) drop(matches func(*prompt) bool) bool {
	at := slices.IndexFunc(c.prompts, func(p *prompt) bool { return p.task != c.line.running && matches(p) })
	if at < 0 || !c.cancels {
		return false
	}
	c.line.remove(c.prompts[at].task)
	c.prompts = slices.Delete(c.prompts, at, at+1)
	return true
}

func (c *ComfyUI) interrupt(w http.ResponseWriter, r *http.Request) {
	var req struct {
		ID string `json:"prompt_id"`
	}
	_ = json.NewDecoder(r.Body).Decode(&req) // without a body, whatever runs is interrupted
	c.stop(func(p *prompt) bool { return req.ID == "" || p.id == req.ID })
	empty(w, http.StatusOK)
}

func (c *ComfyUI) stop(matches func(*prompt) bool) bool {
	for _, p := range c.prompts {
		if p.task == c.line.running && matches(p) {
			if c.cancels {
				c.interrupted(p)
				c.line.stop()
			}
			return true
		}
	}
	return false
}

func (c *ComfyUI) cancelJob(w http.ResponseWriter, r *http.Request) {
	if !c.newer {
		text(w, http.StatusMethodNotAllowed, "405: Method Not Allowed")
		return
	}
	named := func(p *prompt) bool { return p.id == r.PathValue("id") }
	respond(w, http.StatusOK, object{"cancelled": c.stop(named) || c.drop(named)})
}

func (c *ComfyUI) job(w http.ResponseWriter, r *http.Request) {
	named := func(p *prompt) bool { return p.id == r.PathValue("id") }
	ended, waits := slices.IndexFunc(c.history, named), slices.IndexFunc(c.prompts, named)
	switch {
	case !c.newer:
		empty(w, http.StatusNotFound)
	case ended >= 0:
		respond(w, http.StatusOK, c.history[ended].endedJob())
	case waits >= 0:
		p, status := c.prompts[waits], "pending"
		if p.task == c.line.running {
			status = "in_progress"
		}
		respond(w, http.StatusOK, p.job(status))
	default:
		respond(w, http.StatusNotFound, object{"error": "Job not found"})
	}
}

// job is what /api/jobs says of a prompt in each state.
func (p *prompt) job(status string) object {
	return object{
		"id": p.id, "status": status, "priority": p.number, "create_time": p.created,
		"outputs_count": 0, "previewable_outputs_count": 0,
		"workflow": object{"prompt": p.graph, "extra_data": object{"client_id": p.client, "create_time": p.created}},
	}
}

// endedJob is what /api/jobs says of a prompt in the history.
func (p *prompt) endedJob() object {
	status := "failed"
	if p.succeeded {
		status = "completed"
	}
	job := p.job(status)
	for _, message := range p.messages {
		switch kind := message.([]any)[0]; kind {
		case "execution_interrupted":
			job["status"] = "cancelled"
		case "execution_error":
			job[kind.(string)] = message.([]any)[1]
		}
	}
	job["outputs"], job["execution_status"] = p.results, p.past()["status"]
	job["outputs_count"], job["previewable_outputs_count"] = len(p.results), len(p.results)
	return job
}

func (c *ComfyUI) historyPage(w http.ResponseWriter, r *http.Request) {
	limit, err := strconv.Atoi(r.URL.Query().Get("max_items"))
	if err != nil {
		limit = len(c.history)
	}
	page := object{}
	for _, p := range c.history {
		if id := r.PathValue("id"); id == p.id || id == "" && p.number >= c.history[max(0, len(c.history)-limit)].number {
			page[p.id] = p.past()
		}
	}
	respond(w, http.StatusOK, page)
}

// past is the history of a prompt.
func (p *prompt) past() object {
	status, meta := "error", object{}
	if p.succeeded {
		status = "success"
	}
	for id := range p.results {
		meta[id] = object{"node_id": id, "display_node": id, "parent_node": nil, "real_node_id": id}
	}
	return object{
		"prompt": p.item(), "outputs": p.results, "meta": meta,
		"status": object{"status_str": status, "completed": p.succeeded, "messages": p.messages},
	}
}

func (c *ComfyUI) free(w http.ResponseWriter, _ *http.Request) {
	c.cache = map[string]object{}
	empty(w, http.StatusOK)
}

func (c *ComfyUI) objectInfo(w http.ResponseWriter, r *http.Request) {
	if class := r.PathValue("class"); class != "" {
		answer := object{}
		if info, ok := c.nodes[class]; ok {
			answer[class] = info
		}
		respond(w, http.StatusOK, answer)
		return
	}
	respond(w, http.StatusOK, c.nodes)
}

func (c *ComfyUI) view(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	name, folder := query.Get("filename"), query.Get("subfolder")
	path := filepath.Join(c.Dir, cmp.Or(query.Get("type"), "output"), folder, filepath.Base(name))
	if name == "" || strings.Contains(name, "..") || strings.HasPrefix(name, "/") {
		empty(w, http.StatusBadRequest)
		return
	}
	if !below(folder) {
		empty(w, http.StatusForbidden)
		return
	}
	file, err := os.Open(path)
	if err != nil {
		empty(w, http.StatusNotFound)
		return
	}
	defer file.Close()
	kind := map[string]string{".mp4": "video/mp4", ".png": "image/png"}[filepath.Ext(name)]
	w.Header().Set("Content-Type", kind)
	http.ServeContent(aiohttp{w, kind}, r, "", time.Time{}, file)
}

// aiohttp keeps the type of a file where its range is refused.
type aiohttp struct {
	http.ResponseWriter
	kind string
}

func (w aiohttp) WriteHeader(status int) {
	w.Header().Set("Content-Type", w.kind)
	w.ResponseWriter.WriteHeader(status)
}

func (c *ComfyUI) upload(w http.ResponseWriter, r *http.Request) {
	file, header, err := r.FormFile("image")
	if err != nil {
		empty(w, http.StatusBadRequest)
		return
	}
	defer file.Close()
	content, err := io.ReadAll(file)
	folder := r.FormValue("subfolder")
	if err != nil || !below(folder) {
		empty(w, http.StatusBadRequest)
		return
	}
	kind := cmp.Or(r.FormValue("type"), "input")
	dir := filepath.Join(c.Dir, kind, folder)
	name := filepath.Base(header.Filename)
	extension := filepath.Ext(name)
	for i := 1; r.FormValue("overwrite") != "true"; i++ {
		there, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(there) == string(content) {
			break
		}
		name = fmt.Sprintf("%s (%d)%s", strings.TrimSuffix(filepath.Base(header.Filename), extension), i, extension)
	}
	c.write(filepath.Join(dir, name), content)
	respond(w, http.StatusOK, object{"name": name, "subfolder": folder, "type": kind})
}

func (c *ComfyUI) write(path string, content []byte) {
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, content, 0o644)
	}
	if err != nil {
		c.t.Error(err)
	}
}
