package recording

import (
	"fmt"
	"testing"
)

type videosAPI struct{ *Recorder }

func (v *videosAPI) create(name, path string, form Form) string {
	id, _ := v.Send("POST", path, form).Object(v.t)["id"].(string)
	v.Name(id, name)
	return id
}

func (v *videosAPI) has(id, status string) {
	v.Until(id+" is "+status, "/v1/videos/"+id, func(a Answer) bool { return a.Object(v.t)["status"] == status })
}

// VideosAPI records a server of /v1/videos that has rendered nothing yet.
func VideosAPI(t testing.TB, engine Engine) []Exchange {
	v := &videosAPI{New(t, engine)}
	const videos = "/v1/videos"
	v.Do("health", "GET", "/health", nil)
	v.Do("models", "GET", "/v1/models", nil)
	v.Do("empty list", "GET", videos, nil)
	v.Do("unknown", "GET", videos+"/nope", nil)
	v.Do("content of unknown", "GET", videos+"/nope/content", nil)
	v.Do("delete unknown", "DELETE", videos+"/nope", nil)
	v.Do("bad limit", "GET", videos+"?limit=1000", nil)

	v.Do("create without a prompt", "POST", videos, Form{"seconds": "4"})
	v.Do("create with bad seconds", "POST", videos, Form{"prompt": "a boat", "seconds": "4.5"})
	v.Do("create with a bad size", "POST", videos, Form{"prompt": "a boat", "size": "large"})
	v.Do("create with a bad seed", "POST", videos, Form{"prompt": "a boat", "seed": "one"})

	// A long video first: all others wait until it is deleted, however fast the machine is.
	long := Form{"prompt": "a long boat", "seconds": "4", "size": "64x36", "num_inference_steps": "100", "seed": "1"}
	running := v.create("running", videos, long)
	v.has(running, "in_progress")
	v.Do("poll while it runs", "GET", videos+"/"+running, nil)
	v.Do("content while it runs", "GET", videos+"/"+running+"/content", nil)
	queued := v.create("queued", videos, Form{"prompt": "a boat", "seconds": "4", "num_inference_steps": "3"})
	v.Do("poll while it waits", "GET", videos+"/"+queued, nil)
	v.Do("content while it waits", "GET", videos+"/"+queued+"/content", nil)
	v.Do("delete what waits", "DELETE", videos+"/"+queued, nil)
	v.Do("poll what was deleted", "GET", videos+"/"+queued, nil)
	v.Do("delete what was deleted", "DELETE", videos+"/"+queued, nil)
	// The answers have the same keys whether the video waits or not.
	v.Do("create by form", "POST", videos, Form{"prompt": "a boat", "seconds": "2", "num_inference_steps": "3", "unknown": "x"})
	v.Do("create with another model", "POST", videos, Form{"prompt": "a boat", "model": "sora-2", "num_inference_steps": "3"})
	v.Do("create by JSON", "POST", videos, map[string]any{"prompt": "a boat", "num_inference_steps": 3})
	v.Do("delete what runs", "DELETE", videos+"/"+running, nil)
	v.Do("poll what was stopped", "GET", videos+"/"+running, nil)
	v.Do("content of what was stopped", "GET", videos+"/"+running+"/content", nil)
	return append(v.Exchanges, afterDelete(t, engine)...)
}

// afterDelete records the ends of videos, on an engine with an empty memory: SGLang renders on what was deleted.
func afterDelete(t testing.TB, engine Engine) []Exchange {
	engine.Restart()
	v := &videosAPI{New(t, engine)}
	const videos = "/v1/videos"
	v.Do("list after a restart", "GET", videos, nil)
	done := v.create("done", videos, Form{"prompt": "a boat", "seconds": "4", "num_inference_steps": "3"})
	v.has(done, "completed")
	v.Do("poll what is done", "GET", videos+"/"+done, nil)
	v.Do("list", "GET", videos+"?limit=1", nil)
	v.Do("list after", "GET", videos+"?after="+done, nil)
	v.Do("list after unknown", "GET", videos+"?after=nope", nil)
	v.Do("content", "GET", videos+"/"+done+"/content", nil)
	v.Do("content, a range", "GET", videos+"/"+done+"/content", nil, "Range", "bytes=10-19")
	v.Do("content, beyond its end", "GET", videos+"/"+done+"/content", nil, "Range", "bytes=99999999-")

	for _, prompt := range []string{"boom", "bad"} {
		failed := v.create(fmt.Sprintf("failed: %s", prompt), videos, Form{"prompt": prompt, "num_inference_steps": "2"})
		v.Until(prompt+" ends", videos+"/"+failed, func(a Answer) bool {
			status := a.Object(t)["status"]
			return status == "failed" || status == "completed"
		})
		v.Do("poll what ended: "+prompt, "GET", videos+"/"+failed, nil)
		if prompt == "boom" {
			v.Do("content of what failed", "GET", videos+"/"+failed+"/content", nil)
			v.Do("delete what failed", "DELETE", videos+"/"+failed, nil)
		}
	}
	v.Do("delete what is done", "DELETE", videos+"/"+done, nil)
	v.Do("content of what was deleted", "GET", videos+"/"+done+"/content", nil)
	lost := v.create("lost", videos, Form{"prompt": "a boat", "num_inference_steps": "100"})
	engine.Restart()
	v.Do("poll after a restart", "GET", videos+"/"+lost, nil)
	return v.Exchanges
}
