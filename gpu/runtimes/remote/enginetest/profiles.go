package enginetest

import (
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/google/uuid"
)

// Profile is how a server of /v1/videos differs from others.
type Profile struct {
	Name string

	created int // the status of a create
	failed  int // the status of a poll of a failed job
	json    bool
	stops   bool // whether a delete stops the render

	noContent       int // the answer to the content of a failed job
	noContentDetail string
	linked          bool // the job has a url, and /content refuses
	redirects       bool // /content redirects

	health, model object
	read          func(w http.ResponseWriter, f fields) (*Video, bool)
	show          func(v *VideosAPI, video *Video) object
	fails         func(video *Video) bool
}

// VLLMOmni is vLLM-Omni 0.30.0: forms only, failed jobs by an error's status, no progress.
func VLLMOmni() Profile {
	return Profile{
		Name: "vllm-omni", created: http.StatusOK, failed: http.StatusInternalServerError, stops: true,
		noContent:       http.StatusUnprocessableEntity,
		noContentDetail: "Video generation failed. Check job status for error details.",
		health:          object{"status": "healthy"},
		model:           object{"id": "wan", "object": "model", "created": 0, "owned_by": "vllm"},
		read:            readVLLMOmni, show: showVLLMOmni, fails: failsByPrompt,
	}
}

// SGLang is SGLang Diffusion 0.5.23: forms and JSON, progress, no prompt in answers, a delete stops nothing.
func SGLang() Profile {
	return Profile{
		Name: "sglang", created: http.StatusOK, failed: http.StatusOK, json: true,
		noContent: http.StatusNotFound, noContentDetail: "Video variant None not found",
		health: object{"status": "ok"},
		model:  object{"id": "wan", "object": "model", "owned_by": "sglang"},
		read:   readSGLang, show: showSGLang,
		// Its engine does not know the prompt "bad".
		fails: func(video *Video) bool { return video.Prompt == "boom" },
	}
}

// SGLangS3 is SGLang with cloud storage: the job has a url, and its content is refused.
func SGLangS3() Profile {
	p := SGLang()
	p.Name, p.linked = "sglang-s3", true
	return p
}

// Accepting answers a create with 202, as TensorRT-LLM does, and knows few fields.
func Accepting() Profile {
	return plain("accepting", func(p *Profile) { p.created = http.StatusAccepted })
}

// Creating answers a create with 201.
func Creating() Profile {
	return plain("creating", func(p *Profile) { p.created = http.StatusCreated })
}

// Linking gives the film by a url in the job only.
func Linking() Profile { return plain("linking", func(p *Profile) { p.linked = true }) }

// Redirecting gives the film by a redirect.
func Redirecting() Profile { return plain("redirecting", func(p *Profile) { p.redirects = true }) }

// Fractional gives progress from 0 to 1.
func Fractional() Profile {
	return plain("fractional", func(p *Profile) {
		show := p.show
		p.show = func(v *VideosAPI, video *Video) object {
			answer := show(v, video)
			answer["progress"] = video.Progress
			return answer
		}
	})
}

// Wordless gives an error that is a string, and no progress.
func Wordless() Profile {
	return plain("wordless", func(p *Profile) {
		show := p.show
		p.show = func(v *VideosAPI, video *Video) object {
			answer := show(v, video)
			delete(answer, "progress")
			if video.Status == "failed" {
				answer["error"] = video.Error
			}
			return answer
		}
	})
}

// Profiles are all of them.
func Profiles() []Profile {
	return []Profile{VLLMOmni(), SGLang(), SGLangS3(), Accepting(), Creating(), Linking(), Redirecting(), Fractional(), Wordless()}
}

// plain is a server with OpenAI's fields alone.
func plain(name string, change func(*Profile)) Profile {
	p := Profile{
		Name: name, created: http.StatusOK, failed: http.StatusOK, json: true, stops: true,
		noContent: http.StatusNotFound, noContentDetail: "Video not available",
		health: object{"status": "ok"},
		model:  object{"id": "wan", "object": "model"},
		read: func(w http.ResponseWriter, f fields) (*Video, bool) {
			if _, ok := f.get("prompt"); !ok {
				refuse(w, http.StatusBadRequest, "prompt is required")
				return nil, false
			}
			return newVideo(f, "video_"+hexID()), true
		},
		fails: failsByPrompt,
	}
	p.show = func(v *VideosAPI, video *Video) object {
		answer := object{
			"id": video.ID, "object": "video", "model": video.Model, "status": video.Status,
			"progress": int(100 * video.Progress), "created_at": video.Created, "error": nil,
		}
		if video.Status == "failed" {
			answer["error"] = object{"message": video.Error}
		}
		if v.profile.linked && video.Status == "completed" {
			answer["url"] = v.link(video)
		}
		return answer
	}
	change(&p)
	return p
}

// failsByPrompt makes two prompts fail, as in the programs that stand in for engines when they are recorded.
func failsByPrompt(video *Video) bool {
	video.Error = map[string]string{"boom": "CUDA out of memory", "bad": "bad frames"}[video.Prompt]
	return video.Error != ""
}

var secondsPattern = regexp.MustCompile(`^[1-9]\d*$`)

func readVLLMOmni(w http.ResponseWriter, f fields) (*Video, bool) {
	for _, field := range []struct {
		name    string
		pattern *regexp.Regexp
		text    string
	}{
		{"seconds", secondsPattern, `^[1-9]\d*$`}, {"size", sizePattern, `^\d+x\d+$`},
	} {
		if value, ok := f.get(field.name); ok && !field.pattern.MatchString(value) {
			unprocessable(w, "string_pattern_mismatch", "String should match pattern '"+field.text+"'", value,
				object{"pattern": field.text}, "body", field.name)
			return nil, false
		}
	}
	if !integers(w, f, "seed", "fps", "num_frames", "width", "height", "num_inference_steps") {
		return nil, false
	}
	if _, ok := f.get("prompt"); !ok {
		unprocessable(w, "missing", "Field required", nil, nil, "body", "prompt")
		return nil, false
	}
	if model, ok := f.get("model"); ok && model != "wan" {
		refuse(w, http.StatusBadRequest, "Model mismatch: request specifies '"+model+"' but server is running 'wan'.")
		return nil, false
	}
	return newVideo(f, "video_gen_"+hexID()), true
}

func integers(w http.ResponseWriter, f fields, names ...string) bool {
	for _, name := range names {
		value, ok := f.get(name)
		if _, err := strconv.Atoi(value); ok && err != nil {
			unprocessable(w, "int_parsing", "Input should be a valid integer, unable to parse string as an integer",
				value, nil, "body", name)
			return false
		}
	}
	return true
}

func showVLLMOmni(_ *VideosAPI, video *Video) object {
	answer := object{
		"id": video.ID, "object": "video", "model": video.Model, "prompt": video.Prompt, "status": video.Status,
		"size": video.Size, "progress": 0, "seconds": "4", "quality": "default", "created_at": video.Created,
		"completed_at": nil, "remixed_from_video_id": nil, "error": nil, "media_type": "video/mp4",
		"expires_at": nil, "file_name": nil, "inference_time_s": nil, "fps": 24.0, "num_frames": nil,
		"duration_s": nil, "metrics": nil, "stage_durations": object{}, "peak_memory_mb": 0.0, "action": nil,
	}
	if video.Seconds != nil {
		seconds, _ := strconv.Atoi(*video.Seconds) // it was checked
		answer["seconds"], answer["duration_s"], answer["num_frames"] = *video.Seconds, float64(seconds), 24*seconds
	}
	switch video.Status {
	case "completed":
		answer["progress"], answer["file_name"] = 100, video.ID+".mp4"
		answer["completed_at"], answer["inference_time_s"] = video.Completed, 0.5
		answer["stage_durations"], answer["peak_memory_mb"] = object{"denoise": 0.5}, 1234.0
	case "failed":
		answer["completed_at"], answer["inference_time_s"] = video.Completed, 0.5
		answer["error"] = object{"code": 500, "message": video.Error}
	}
	return answer
}

func readSGLang(w http.ResponseWriter, f fields) (*Video, bool) {
	if !integers(w, f, "seconds", "seed", "fps", "num_frames", "width", "height", "num_inference_steps") {
		return nil, false
	}
	if prompt, _ := f.get("prompt"); prompt == "" {
		refuse(w, http.StatusBadRequest, "prompt is required")
		return nil, false
	}
	if size, ok := f.get("size"); ok && !sizePattern.MatchString(size) {
		refuse(w, http.StatusBadRequest, "size must be formatted as positive WIDTHxHEIGHT")
		return nil, false
	}
	video := newVideo(f, uuid.NewString())
	if model, ok := f.get("model"); ok {
		video.Model = model
	}
	video.Error = "Model generation failed. Error from scheduler: CUDA out of memory"
	return video, true
}

func showSGLang(v *VideosAPI, video *Video) object {
	file := filepath.Join(v.Dir, video.ID+".mp4")
	answer := object{
		"id": video.ID, "object": "video", "model": video.Model, "status": video.Status,
		"progress": min(99, int(100*video.Progress)), "created_at": video.Created,
		"size":    strconv.Itoa(video.shape.Width) + "x" + strconv.Itoa(video.shape.Height),
		"seconds": "4", "quality": "standard", "url": nil, "urls": nil, "remixed_from_video_id": nil,
		"completed_at": nil, "expires_at": nil, "error": nil, "file_path": file, "file_paths": nil,
		"num_outputs": nil, "peak_memory_mb": nil, "inference_time_s": nil, "revised_prompt": nil,
		"action": nil, "lidar": nil,
	}
	if video.Seconds != nil {
		answer["seconds"] = *video.Seconds
	}
	switch video.Status {
	case "completed":
		answer["progress"], answer["completed_at"], answer["num_outputs"] = 100, video.Completed, 1
		answer["peak_memory_mb"], answer["inference_time_s"] = 1234.0, 0.5
		answer["urls"], answer["file_paths"] = []any{nil}, []any{file}
		if v.profile.linked {
			answer["url"], answer["urls"] = v.link(video), []any{v.link(video)}
			answer["file_path"], answer["file_paths"] = nil, []any{nil}
		}
	case "failed":
		answer["error"], answer["file_path"] = object{"message": video.Error}, nil
	}
	return answer
}
