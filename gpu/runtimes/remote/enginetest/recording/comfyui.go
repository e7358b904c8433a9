package recording

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/google/uuid"
	"github.com/reelay/reelay/internal/testrun"
)

// Nodes are the classes whose /object_info is recorded: the nodes of the tests, and those of common graphs.
var Nodes = strings.Fields("SlowFrames CreateVideo SaveVideo SaveImage LoadImage KSampler CheckpointLoaderSimple " +
	"CLIPTextEncode EmptyLatentImage VAEDecode UNETLoader CLIPLoader VAELoader LoraLoader ModelSamplingSD3 " +
	"EmptyHunyuanLatentVideo WanImageToVideo")

// Graph returns a graph in API format: SlowFrames, CreateVideo, SaveVideo. The options are pairs that
// replace inputs of SlowFrames; prefix is the file's.
func Graph(prefix string, options ...any) map[string]any {
	frames := map[string]any{"frames": 8, "step_seconds": 0.1, "steps": 3, "seed": 1, "fail_at": -1}
	for i := 0; i+1 < len(options); i += 2 {
		frames[options[i].(string)] = options[i+1]
	}
	return map[string]any{
		"1": node("SlowFrames", frames),
		"2": node("CreateVideo", map[string]any{"images": []any{"1", 0}, "fps": 8}),
		"3": node("SaveVideo", map[string]any{
			"video": []any{"2", 0}, "filename_prefix": prefix, "format": "auto", "codec": "auto",
		}),
	}
}

func node(class string, inputs map[string]any) map[string]any {
	return map[string]any{"class_type": class, "inputs": inputs}
}

func with(graph map[string]any, id string, n any) map[string]any {
	if n == nil {
		delete(graph, id)
	} else {
		graph[id] = n
	}
	return graph
}

type comfyUI struct {
	*Recorder
	client string
}

func (c *comfyUI) id(name string) string {
	id := uuid.NewString()
	c.Name(id, name)
	return id
}

func (c *comfyUI) submit(name, id string, graph map[string]any) Answer {
	return c.Do(name, "POST", "/prompt", map[string]any{"prompt": graph, "prompt_id": id, "client_id": c.client})
}

func (c *comfyUI) ended(id string) {
	c.Until("the end of "+id, "/history/"+id, func(a Answer) bool { return len(a.Body) > 2 })
}

func (c *comfyUI) runs(id string) {
	c.Until("that it runs", "/queue", func(a Answer) bool {
		running, _ := json.Marshal(a.Object(c.t)["queue_running"])
		return strings.Contains(string(running), id)
	})
}

// ComfyUI records a ComfyUI that has run nothing yet.
func ComfyUI(t testing.TB, engine Engine) []Exchange {
	c := &comfyUI{Recorder: New(t, engine)}
	c.client = c.id("client")
	c.aboutItself()
	c.refusals()
	c.goodRun()
	c.failures()
	c.cancels()
	c.files()
	c.restart()
	return c.Exchanges
}

func (c *comfyUI) aboutItself() {
	c.Do("system stats", "GET", "/system_stats", nil)
	c.Do("features", "GET", "/features", nil)
	c.Do("prompt queue", "GET", "/prompt", nil)
	c.Do("empty queue", "GET", "/queue", nil)
	c.Do("empty history", "GET", "/history", nil)
	c.Do("unknown history", "GET", "/history/nope", nil)
	for _, class := range Nodes {
		c.Do("object info "+class, "GET", "/object_info/"+class, nil)
	}
	c.Do("object info of no node", "GET", "/object_info/Nope", nil)
	c.Do("jobs of newer releases", "GET", "/api/jobs/nope", nil)
	c.Do("cancel of newer releases", "POST", "/api/jobs/nope/cancel", nil)
}

func (c *comfyUI) refusals() {
	for _, refused := range []struct {
		name  string
		graph map[string]any
	}{
		{"above maximum", Graph("x", "frames", 100000)},
		{"below minimum", Graph("x", "frames", 0)},
		{"not in list", Graph("x", "model", "missing.safetensors")},
		{"not a number", Graph("x", "frames", "many")},
		{"missing input", with(Graph("x"), "1", node("SlowFrames", map[string]any{"frames": 8}))},
		{"no such node", with(Graph("x"), "1", node("Nope", map[string]any{}))},
		{"no output", with(Graph("x"), "3", nil)},
		{"link to nothing", with(Graph("x"), "1", nil)},
		{"link of another type", with(Graph("x"), "3", node("SaveVideo", map[string]any{
			"video": []any{"1", 0}, "filename_prefix": "x", "format": "auto", "codec": "auto",
		}))},
		{"bad link", with(Graph("x"), "2", node("CreateVideo", map[string]any{"images": []any{"1"}, "fps": 8}))},
		{"missing picture", with(Graph("x", "image", []any{"4", 0}), "4", node("LoadImage", map[string]any{"image": "missing.png"}))},
		{"missing model", map[string]any{
			"1": node("VAELoader", map[string]any{"vae_name": "missing.safetensors"}),
			"2": node("EmptyLatentImage", map[string]any{"width": 64, "height": 64, "batch_size": 1}),
			"3": node("VAEDecode", map[string]any{"samples": []any{"2", 0}, "vae": []any{"1", 0}}),
			"4": node("SaveImage", map[string]any{"images": []any{"3", 0}, "filename_prefix": "x"}),
		}},
		{"no class", with(Graph("x"), "1", map[string]any{"inputs": map[string]any{}})},
		{"empty graph", map[string]any{}},
		{"graph of the editor", map[string]any{"nodes": []any{}, "links": []any{}, "version": 0.4}},
	} {
		c.submit("refused: "+refused.name, c.id("refused"), refused.graph)
	}
	part := c.id("refused in part")
	c.submit("refused in part", part, with(with(Graph("reelay/part", "frames", 100000), "5",
		Graph("", "seed", 9)["1"]), "4",
		node("SaveImage", map[string]any{"images": []any{"5", 0}, "filename_prefix": "reelay/part"})))
	c.Do("refused: no prompt", "POST", "/prompt", map[string]any{"client_id": c.client})
	c.Do("refused: no JSON", "POST", "/prompt", "{nope")
	c.Do("refused: foreign origin", "POST", "/prompt", map[string]any{"prompt": Graph("x")}, "Origin", "http://evil.example")
	c.ended(part)
	c.Do("history of what was refused in part", "GET", "/history/"+part, nil)
	c.Do("queue after refusals", "GET", "/queue", nil)
}

func (c *comfyUI) goodRun() {
	id := c.id("good")
	events := c.watch()
	c.submit("submit", id, Graph("reelay/"+id))
	c.Events("events of a run", "/ws?clientId="+c.client, events(func(e map[string]any) bool {
		data, _ := e["data"].(map[string]any)
		return e["type"] == "executing" && data["node"] == nil
	}))
	c.ended(id)
	c.Do("history of success", "GET", "/history/"+id, nil)
	c.Do("history, the newest", "GET", "/history?max_items=1", nil)
	film := "/view?filename=" + id + "_00001_.mp4&subfolder=reelay&type=output"
	c.Do("view", "GET", film, nil)
	c.Do("view a range", "GET", film, nil, "Range", "bytes=10-19")
	c.Do("view the rest", "GET", film, nil, "Range", "bytes=99999999-")
	c.Do("view unknown", "GET", "/view?filename=nope.mp4&type=output", nil)
	c.Do("view above", "GET", "/view?filename=../x&type=output", nil)
	c.Do("view in a folder above", "GET", "/view?filename=x&subfolder=../..&type=output", nil)

	cached := c.id("cached")
	c.submit("submit the same", cached, Graph("reelay/"+id))
	c.ended(cached)
	c.Do("history of a cached run", "GET", "/history/"+cached, nil)
	renamed := c.id("renamed")
	c.submit("submit the same with another name", renamed, Graph("reelay/"+renamed))
	c.ended(renamed)
	c.Do("history of cached frames", "GET", "/history/"+renamed, nil)
}

func (c *comfyUI) failures() {
	for _, failure := range []string{"error", "out of memory"} {
		id := c.id(failure)
		c.submit("submit what fails: "+failure, id, Graph("reelay/"+id, "fail_at", 1, "failure", failure, "seed", 2))
		c.ended(id)
		c.Do("history of a failure: "+failure, "GET", "/history/"+id, nil)
	}
}

func (c *comfyUI) cancels() {
	running, waiting := c.id("running"), c.id("waiting")
	c.submit("submit long", running, Graph("reelay/"+running, "seed", 4, "steps", 600))
	c.runs(running)
	c.submit("submit behind it", waiting, Graph("reelay/"+waiting, "seed", 5))
	c.submit("submit the same id again", waiting, Graph("reelay/"+waiting, "seed", 5))
	c.Do("queue", "GET", "/queue", nil)
	c.Do("prompt queue of three", "GET", "/prompt", nil)
	c.Do("history while it runs", "GET", "/history/"+running, nil)
	c.Do("interrupt what waits", "POST", "/interrupt", map[string]any{"prompt_id": waiting})
	c.Do("interrupt unknown", "POST", "/interrupt", map[string]any{"prompt_id": "nope"})
	c.Do("delete what waits", "POST", "/queue", map[string]any{"delete": []string{waiting}})
	c.Do("queue with one twin left", "GET", "/queue", nil)
	c.Do("delete the twin", "POST", "/queue", map[string]any{"delete": []string{waiting}})
	c.Do("delete unknown", "POST", "/queue", map[string]any{"delete": []string{"nope"}})
	c.Do("queue of one", "GET", "/queue", nil)
	c.Do("history of what was deleted", "GET", "/history/"+waiting, nil)
	c.Do("interrupt what runs", "POST", "/interrupt", map[string]any{"prompt_id": running})
	c.ended(running)
	c.Do("history of an interrupt", "GET", "/history/"+running, nil)
	c.Do("interrupt what has ended", "POST", "/interrupt", map[string]any{"prompt_id": running})

	reconnected := c.id("reconnected")
	first := c.watch()
	c.submit("submit to reconnect to", reconnected, Graph("reelay/"+reconnected, "seed", 6, "steps", 600))
	first(func(e map[string]any) bool { return e["type"] == "progress" })
	again := c.watch()
	c.Events("events after a reconnect", "/ws?clientId="+c.client, again(func(e map[string]any) bool { return e["type"] == "executing" }))
	c.Do("interrupt whatever runs", "POST", "/interrupt", nil)
	c.ended(reconnected)
	end := again(func(e map[string]any) bool { return e["type"] == "execution_interrupted" })
	c.Events("event of an interrupt", "/ws?clientId="+c.client, end[len(end)-1:]) // how far it came is a matter of time
	c.Do("clear the queue", "POST", "/queue", map[string]any{"clear": true})
	c.Do("free", "POST", "/free", map[string]any{"unload_models": true, "free_memory": true})
}

func (c *comfyUI) files() {
	upload := func(name, file, content string, more ...string) {
		form := Form{"image": "@" + file + ":" + content, "type": "input", "subfolder": "reelay"}
		for i := 0; i+1 < len(more); i += 2 {
			form[more[i]] = more[i+1]
		}
		c.Do(name, "POST", "/upload/image", form)
	}
	upload("upload", "a.png", picture)
	upload("upload the same again", "a.png", picture)
	upload("upload other bytes", "a.png", "other bytes")
	upload("upload over it", "a.png", "more bytes", "overwrite", "true")
	upload("upload above", "a.png", picture, "subfolder", "../../x")
	c.Do("upload nothing", "POST", "/upload/image", Form{"type": "input"})
	c.Do("view an upload", "GET", "/view?filename=a.png&subfolder=reelay&type=input", nil)
	c.Do("forget history", "POST", "/history", map[string]any{"delete": []string{"nope"}})
}

func (c *comfyUI) restart() {
	done, lost := c.id("done"), c.id("lost")
	c.submit("submit before a restart", done, Graph("reelay/"+done, "seed", 7))
	c.ended(done)
	c.submit("submit what a restart loses", lost, Graph("reelay/"+lost, "seed", 8, "steps", 600))
	c.runs(lost)
	c.engine.Restart()
	c.Do("history after a restart", "GET", "/history/"+done, nil)
	c.Do("history of what was lost", "GET", "/history/"+lost, nil)
	c.Do("queue after a restart", "GET", "/queue", nil)
	c.Do("view after a restart", "GET", "/view?filename="+done+"_00001_.mp4&subfolder=reelay&type=output", nil)
}

// picture is a PNG of one pixel.
const picture = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89" +
	"\x00\x00\x00\rIDATx\x9cc\xf8\xff\xff?\x00\x05\xfe\x02\xfe\xa7\x9a\xa0\xa0\x00\x00\x00\x00IEND\xaeB`\x82"

// watch opens the socket, and returns when the engine has answered its first message. The function that it
// returns collects events until one is the last; a fake takes a step whenever it sends nothing.
func (c *comfyUI) watch() func(last func(map[string]any) bool) []map[string]any {
	conn, _, err := websocket.Dial(c.t.Context(), "ws"+strings.TrimPrefix(c.engine.URL, "http")+"/ws?clientId="+c.client, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { conn.CloseNow() })
	conn.SetReadLimit(1 << 20)
	flags := `{"type": "feature_flags", "data": {"supports_preview_metadata": true}}`
	if err := conn.Write(c.t.Context(), websocket.MessageText, []byte(flags)); err != nil {
		c.t.Fatal(err)
	}
	messages := make(chan map[string]any, 10_000)
	go func() {
		defer close(messages)
		for {
			kind, text, err := conn.Read(c.t.Context())
			if err != nil {
				return
			}
			event := map[string]any{}
			if kind == websocket.MessageBinary {
				event = preview(text)
			} else if json.Unmarshal(text, &event) != nil {
				return
			}
			messages <- event
		}
	}()
	var first []map[string]any
	for len(first) == 0 || first[len(first)-1]["type"] != "feature_flags" {
		event := testrun.Receive(c.t, "the engine's flags", messages)
		if event == nil {
			c.t.Fatal("the socket was closed")
		}
		first = append(first, event)
	}
	return func(last func(map[string]any) bool) []map[string]any {
		var events []map[string]any
		testrun.Eventually(c.t, "the last event", func() bool {
			for len(first) > 0 || len(messages) > 0 {
				var event map[string]any
				if len(first) > 0 {
					event, first = first[0], first[1:]
				} else {
					event = <-messages
				}
				if events = append(events, event); last(event) {
					return true
				}
			}
			c.engine.Step()
			return false
		})
		return events
	}
}

// preview describes a binary message.
func preview(text []byte) map[string]any {
	if len(text) < 8 {
		return map[string]any{"type": "short binary"}
	}
	kind, n := binary.BigEndian.Uint32(text), int(binary.BigEndian.Uint32(text[4:]))
	event := map[string]any{"type": fmt.Sprintf("binary %d", kind)}
	if kind != 4 || len(text) < 8+n {
		event["format"] = n
		return event
	}
	var header map[string]any
	_ = json.Unmarshal(text[8:8+n], &header) // an absent one shows in the comparison
	event["header"] = header
	event["picture"] = http.DetectContentType(text[8+n:])
	return event
}
