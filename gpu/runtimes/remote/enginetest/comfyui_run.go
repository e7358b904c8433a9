package enginetest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// plan makes the task of a prompt. The node with an input "steps" takes them; the others take no time.
func (c *ComfyUI) plan(p *prompt) {
	slow, steps := p.graph.number(p.order, "steps", 4)
	_, failAt := p.graph.number(p.order, "fail_at", -1)
	if slow == "" {
		slow = p.order[0]
	}
	p.slow = slow
	p.task = &task{
		id: p.id, steps: steps, failAt: failAt,
		begin: func() { c.begun(p) },
		step:  func() { c.stepped(p) },
		end:   func(failed bool) { c.ended(p, failed) },
	}
}

// begun looks what the last run has left, and enters the node that takes steps.
func (c *ComfyUI) begun(p *prompt) {
	c.tellAll()
	p.cached = []string{}
	for _, id := range p.order {
		if _, ok := c.cache[p.graph.signature(id)]; ok {
			p.cached = append(p.cached, id)
		}
	}
	if slices.Contains(p.cached, p.slow) {
		p.task.steps, p.task.failAt = 0, -1
	} else {
		c.renders[p.id]++
	}
	c.message(p, "execution_start", object{})
	c.message(p, "execution_cached", object{"nodes": p.cached})
	if p.task.steps > 0 {
		for _, id := range p.order[:slices.Index(p.order, p.slow)] {
			c.pass(p, id)
		}
		c.enter(p, p.slow, 1)
	}
}

func (c *ComfyUI) stepped(p *prompt) {
	c.progress(p, p.slow, "running", p.task.done, p.task.steps)
	c.preview(p, p.slow)
	c.tell(p, "progress", object{"value": p.task.done, "max": p.task.steps, "node": p.slow, "prompt_id": p.id})
}

func (c *ComfyUI) ended(p *prompt, failed bool) {
	if failed {
		c.failed(p)
		return
	}
	cache := map[string]object{}
	for _, id := range p.order {
		if id == p.slow && p.task.steps > 0 {
			c.progress(p, id, "finished", p.task.steps, p.task.steps)
		} else {
			c.pass(p, id)
		}
		cache[p.graph.signature(id)] = p.results[id]
	}
	c.cache = cache // of earlier runs nothing is kept
	p.succeeded = true
	c.message(p, "execution_success", object{})
	c.leave(p)
}

// pass runs a node that takes no time, unless it is cached.
func (c *ComfyUI) pass(p *prompt, id string) {
	if p.progressed[id] != nil {
		return
	}
	isOutput := slices.Contains(p.outputs, id)
	if slices.Contains(p.cached, id) {
		if isOutput {
			p.results[id] = c.cache[p.graph.signature(id)]
		}
		return
	}
	c.enter(p, id, 1)
	if isOutput {
		p.results[id] = c.save(p, id)
		c.tell(p, "executed", object{"node": id, "display_node": id, "output": p.results[id], "prompt_id": p.id})
	}
	c.progress(p, id, "finished", 1, 1)
	p.executed = append(p.executed, id)
}

func (c *ComfyUI) enter(p *prompt, id string, most int) {
	p.currentNode = id
	c.progress(p, id, "running", 0, most)
	c.tell(p, "executing", object{"node": id, "display_node": id, "prompt_id": p.id})
}

func (c *ComfyUI) progress(p *prompt, id, state string, value, most int) {
	p.progressed[id] = object{
		"value": value, "max": most, "state": state, "node_id": id, "prompt_id": p.id,
		"display_node_id": id, "parent_node_id": nil, "real_node_id": id,
	}
	c.tell(p, "progress_state", object{"prompt_id": p.id, "nodes": maps.Clone(p.progressed)})
}

// save writes the files of an output node: a film, or a picture for each frame.
func (c *ComfyUI) save(p *prompt, id string) object {
	shape := p.shape()
	prefix, _ := p.graph.node(id).Inputs["filename_prefix"].(string)
	if !strings.Contains(p.graph.node(id).Class, "Video") {
		images := make([]object, shape.Frames)
		for i := range images {
			images[i] = c.file(prefix, ".png", []byte(png))
		}
		return object{"images": images}
	}
	result := object{"animated": []bool{true}}
	if film := c.filmOf(p.id, shape); film != nil {
		result["images"] = []object{c.file(prefix, ".mp4", film)}
	}
	return result
}

// png is the beginning of a picture, by which its type is known.
const png = "\x89PNG\r\n\x1a\n"

// file writes a file under a name that is free.
func (c *ComfyUI) file(prefix, extension string, content []byte) object {
	folder, name := filepath.Split(filepath.Clean("/" + prefix))
	folder = strings.Trim(folder, "/")
	for i := 1; ; i++ {
		file := fmt.Sprintf("%s_%05d_%s", name, i, extension)
		path := filepath.Join(c.Dir, "output", folder, file)
		if _, err := os.Stat(path); err != nil {
			c.write(path, content)
			return object{"filename": file, "subfolder": folder, "type": "output"}
		}
	}
}

func (p *prompt) shape() Shape {
	s := small
	for name, value := range map[string]*int{"width": &s.Width, "height": &s.Height, "fps": &s.FPS, "frames": &s.Frames} {
		_, *value = p.graph.number(p.order, name, *value)
	}
	return s
}

func (c *ComfyUI) failed(p *prompt) {
	kind, message := "ValueError", fmt.Sprintf("the node failed at step %d, as told\n", p.task.failAt)
	inputs := object{}
	for name, value := range p.graph.node(p.slow).Inputs {
		inputs[name] = []any{value}
		if name == "failure" && value == "out of memory" {
			kind, message = "torch.OutOfMemoryError",
				"CUDA out of memory. Tried to allocate 20.00 GiB (pretended)\nThis error means you ran out "+
					"of memory on your GPU.\n\nTIPS: If the workflow worked before you might have accidentally "+
					"set the batch_size to a large number."
		}
	}
	c.message(p, "execution_error", object{
		"node_id": p.slow, "node_type": p.graph.node(p.slow).Class, "executed": p.executed, "exception_message": message,
		"exception_type": kind, "traceback": []string{"  File \"slow_frames.py\"\n"}, "current_inputs": inputs,
		"current_outputs": []string{},
	})
	c.leave(p)
}

func (c *ComfyUI) interrupted(p *prompt) {
	c.message(p, "execution_interrupted", object{
		"node_id": p.currentNode, "node_type": p.graph.node(p.currentNode).Class, "executed": p.executed,
	})
	c.leave(p)
}

// leave moves a prompt into the history.
func (c *ComfyUI) leave(p *prompt) {
	c.prompts = slices.DeleteFunc(c.prompts, func(other *prompt) bool { return other == p })
	c.history = append(c.history, p)
	c.tellAll()
	c.tell(p, "executing", object{"node": nil, "prompt_id": p.id})
}

// message tells the client and is kept in the history.
func (c *ComfyUI) message(p *prompt, kind string, data object) {
	data["prompt_id"], data["timestamp"] = p.id, time.Now().UnixMilli()
	p.messages = append(p.messages, []any{kind, data})
	c.tell(p, kind, data)
}
