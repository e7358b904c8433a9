package enginetest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// VideosAPI is a fake server of /v1/videos.
type VideosAPI struct {
	server
	profile Profile
	videos  []*Video // in their order
}

// Video is a job of such a server.
type Video struct {
	ID, Prompt, Model, Status string
	Size, Seconds             *string
	Progress                  float64 // 0 to 1
	Created, Completed        int64
	Error                     string

	task  *task
	shape Shape
}

// NewVideosAPI starts a fake server of /v1/videos.
func NewVideosAPI(t testing.TB, profile Profile) *VideosAPI {
	v := &VideosAPI{server: server{t: t}, profile: profile}
	v.boot = func() { v.videos = nil }
	mux := http.NewServeMux()
	for pattern, handle := range map[string]http.HandlerFunc{
		"GET /v1/videos":              v.list,
		"POST /v1/videos":             v.create,
		"GET /v1/videos/{id}":         v.get,
		"DELETE /v1/videos/{id}":      v.remove,
		"GET /v1/videos/{id}/content": v.content,
		"GET /health":                 func(w http.ResponseWriter, _ *http.Request) { respond(w, 200, profile.health) },
		"GET /v1/models": func(w http.ResponseWriter, _ *http.Request) {
			respond(w, 200, object{"object": "list", "data": []object{profile.model}})
		},
		// Where a profile's links and redirects lead.
		"GET /files/{file}": func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, v.path(r.PathValue("file"))) },
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				_ = r.ParseMultipartForm(64 << 20) // of another type, which the profile decides about
			}
			v.mu.Lock()
			defer v.mu.Unlock()
			handle(w, r)
		})
	}
	v.start(mux)
	return v
}

func (v *VideosAPI) path(name string) string { return filepath.Join(v.Dir, filepath.Base(name)) }

// All returns the videos that the engine knows.
func (v *VideosAPI) All() []Video {
	v.mu.Lock()
	defer v.mu.Unlock()
	var all []Video
	for _, video := range v.videos {
		all = append(all, *video)
	}
	return all
}

// fields are those of a request, by form or by JSON.
type fields struct {
	json map[string]any
	form *http.Request
}

func (f fields) get(key string) (value string, ok bool) {
	if f.json != nil {
		given, ok := f.json[key]
		return fmt.Sprint(given), ok
	}
	if len(f.form.PostForm[key]) == 0 {
		return "", false
	}
	return f.form.PostForm[key][0], true
}

func (f fields) number(key string, otherwise int) int {
	value, _ := f.get(key)
	if n, err := strconv.Atoi(value); err == nil {
		return n
	}
	return otherwise
}

// unprocessable answers as FastAPI does when a field is wrong.
func unprocessable(w http.ResponseWriter, kind, message string, input any, ctx object, at ...string) {
	detail := object{"type": kind, "loc": at, "msg": message, "input": input}
	if ctx != nil {
		detail["ctx"] = ctx
	}
	respond(w, http.StatusUnprocessableEntity, object{"detail": []object{detail}})
}

func refuse(w http.ResponseWriter, status int, detail string) {
	respond(w, status, object{"detail": detail})
}

func (v *VideosAPI) create(w http.ResponseWriter, r *http.Request) {
	f := fields{form: r}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") && v.profile.json {
		if json.NewDecoder(r.Body).Decode(&f.json) != nil {
			f.json = map[string]any{}
		}
	}
	video, ok := v.profile.read(w, f)
	if !ok {
		return
	}
	video.Created = time.Now().Unix()
	video.Status = "queued"
	video.task = &task{
		id: video.ID, steps: f.number("num_inference_steps", 4), failAt: -1,
		begin: func() {
			v.renders[video.ID]++
			video.Status = "in_progress"
		},
		step: func() { video.Progress = float64(video.task.done) / float64(video.task.steps) },
		end:  func(failed bool) { v.ended(video, failed) },
	}
	if v.profile.fails(video) {
		video.task.failAt = video.task.steps
	}
	v.videos = append(v.videos, video)
	// Before it can begin: the answer says that it waits.
	respond(w, v.profile.created, v.profile.show(v, video))
	v.line.add(video.task)
}

func (v *VideosAPI) ended(video *Video, failed bool) {
	video.Completed = time.Now().Unix()
	if failed {
		video.Status = "failed"
		return
	}
	video.Status, video.Progress = "completed", 1
	film := v.filmOf(video.ID, video.shape)
	if film == nil {
		return
	}
	if err := os.WriteFile(v.path(video.ID+".mp4"), film, 0o644); err != nil {
		v.t.Error(err)
	}
}

// find returns the video that a request is about, or answers that there is none.
func (v *VideosAPI) find(w http.ResponseWriter, r *http.Request) *Video {
	for _, video := range v.videos {
		if video.ID == r.PathValue("id") {
			return video
		}
	}
	refuse(w, http.StatusNotFound, "Video not found")
	return nil
}

func (v *VideosAPI) get(w http.ResponseWriter, r *http.Request) {
	video := v.find(w, r)
	if video == nil {
		return
	}
	status := http.StatusOK
	if video.Status == "failed" {
		status = v.profile.failed
	}
	respond(w, status, v.profile.show(v, video))
}

func (v *VideosAPI) remove(w http.ResponseWriter, r *http.Request) {
	video := v.find(w, r)
	if video == nil {
		return
	}
	v.videos = slices.DeleteFunc(v.videos, func(other *Video) bool { return other == video })
	if v.profile.stops && v.cancels {
		v.line.remove(video.task)
		if v.line.running == video.task {
			v.line.stop()
		}
		_ = os.Remove(v.path(video.ID + ".mp4")) // it may never have been written
	}
	if v.profile.stops {
		respond(w, http.StatusOK, object{"id": video.ID, "deleted": true, "object": "video.deleted"})
		return
	}
	answer := v.profile.show(v, video)
	answer["status"] = "deleted"
	respond(w, http.StatusOK, answer)
}

func (v *VideosAPI) content(w http.ResponseWriter, r *http.Request) {
	video := v.find(w, r)
	if video == nil {
		return
	}
	switch file := v.path(video.ID + ".mp4"); {
	case video.Status == "failed":
		refuse(w, v.profile.noContent, v.profile.noContentDetail)
	case video.Status != "completed":
		refuse(w, http.StatusNotFound, "Generation is still in-progress")
	case v.profile.linked:
		refuse(w, http.StatusBadRequest, "Video has been uploaded to cloud storage. Please use the cloud URL: "+v.link(video))
	case v.profile.redirects:
		http.Redirect(w, r, v.link(video), http.StatusFound)
	default:
		serveFile(w, r, file, "Generated video file not found on disk")
	}
}

func (v *VideosAPI) link(video *Video) string { return v.URL + "/files/" + video.ID + ".mp4" }

// serveFile serves a film with ranges, as Starlette does.
func serveFile(w http.ResponseWriter, r *http.Request, path, absent string) {
	file, err := os.Open(path)
	if err != nil {
		refuse(w, http.StatusNotFound, absent)
		return
	}
	defer file.Close()
	w.Header().Set("Content-Type", "video/mp4")
	if info, err := file.Stat(); err == nil {
		w.Header().Set("ETag", fmt.Sprintf(`"%x-%x"`, info.ModTime().UnixNano(), info.Size()))
	}
	http.ServeContent(w, r, "", time.Time{}, file)
}

func (v *VideosAPI) list(w http.ResponseWriter, r *http.Request) {
	limit := len(v.videos)
	if given := r.URL.Query().Get("limit"); given != "" {
		limit, _ = strconv.Atoi(given)
		if limit > 100 {
			unprocessable(w, "less_than_equal", "Input should be less than or equal to 100", given, object{"le": 100}, "query", "limit")
			return
		}
	}
	page := slices.Clone(v.videos)
	slices.Reverse(page)
	if after := r.URL.Query().Get("after"); after != "" {
		at := slices.IndexFunc(page, func(video *Video) bool { return video.ID == after })
		page = page[at+1:]
		if at < 0 {
			page = nil
		}
	}
	answer := object{"object": "list", "data": []object{}, "first_id": nil, "last_id": nil, "has_more": len(page) > limit}
	page = page[:min(limit, len(page))]
	if len(page) > 0 {
		answer["first_id"], answer["last_id"] = page[0].ID, page[len(page)-1].ID
	}
	data := make([]object, len(page))
	for i, video := range page {
		data[i] = v.profile.show(v, video)
	}
	answer["data"] = data
	respond(w, http.StatusOK, answer)
}

var sizePattern = regexp.MustCompile(`^(\d+)x(\d+)$`)

// shape reads what the film of a request looks like.
func (f fields) shape() Shape {
	s := small
	if size, ok := f.get("size"); ok {
		if m := sizePattern.FindStringSubmatch(size); m != nil {
			s.Width, _ = strconv.Atoi(m[1])
			s.Height, _ = strconv.Atoi(m[2])
		}
	}
	s.Width, s.Height, s.FPS = f.number("width", s.Width), f.number("height", s.Height), f.number("fps", s.FPS)
	s.Frames = f.number("num_frames", s.FPS*f.number("seconds", 1))
	return s
}

func newVideo(f fields, id string) *Video {
	video := &Video{ID: id, Model: "wan", shape: f.shape()}
	video.Prompt, _ = f.get("prompt")
	if size, ok := f.get("size"); ok {
		video.Size = &size
	}
	if seconds, ok := f.get("seconds"); ok {
		video.Seconds = &seconds
	}
	return video
}

func hexID() string { return strings.ReplaceAll(uuid.NewString(), "-", "") }
