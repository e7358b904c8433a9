package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// reception accepts uploads of inputs and a submit.
type reception struct {
	mu       sync.Mutex
	types    []string // the content types that were announced
	uploaded []string
	params   string // those of the submit
	prompt   *string
	refuses  bool
}

func (r *reception) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	body, _ := io.ReadAll(io.LimitReader(req.Body, 1<<20))
	if req.Method == http.MethodPut {
		r.uploaded = append(r.uploaded, string(body))
		return
	}
	var request struct {
		Query     string
		Variables struct {
			ContentType string
			Input       struct {
				Params json.RawMessage
				Prompt *string
			}
		}
	}
	_ = json.Unmarshal(body, &request)
	switch {
	case strings.Contains(request.Query, "requestInputUpload"):
		r.types = append(r.types, request.Variables.ContentType)
		fmt.Fprintf(w, `{"data":{"requestInputUpload":{"artifactId":"art_%d","target":{"objectKey":"k","url":"/put","method":"PUT","headers":{},"expiresAt":"2030-01-01T00:00:00Z"}}}}`, len(r.types))
	case strings.Contains(request.Query, "submitJob"):
		r.params, r.prompt = string(request.Variables.Input.Params), request.Variables.Input.Prompt
		if r.refuses {
			panic(http.ErrAbortHandler)
		}
		accepted(w, req)
	default:
		_, _ = w.Write([]byte(`{"data":{"models":[{"name":"stitch","paramsSchema":{"properties":{"clips":{"type":"array"},"sound":{"type":"string"}}}}]}}`))
	}
}

func TestSubmitInputs(t *testing.T) {
	t.Parallel()

	folder := t.TempDir()
	file := func(name, data string) string {
		path := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(path, []byte(data), 0o600))
		return path
	}
	video := file("a.mp4", "\x00\x00\x00\x20ftypisom\x00\x00\x02\x00")
	sound := file("a.m4a", "\x00\x00\x00\x20ftypM4A \x00\x00\x02\x00")
	text := file("a.txt", "this is text")
	heic := file("photo.heic", "\x00\x00\x00\x18ftypheic\x00\x00\x00\x00mif1heic")
	serve := func(t *testing.T) (*reception, []string) {
		t.Helper()
		r := &reception{}
		server := httptest.NewServer(r)
		t.Cleanup(server.Close)
		return r, []string{"submit", "--endpoint", server.URL, "--key", "k", "--model", "stitch"}
	}

	t.Run("AreUploadedAndNamed", func(t *testing.T) {
		t.Parallel()

		r, args := serve(t)
		status, out, errs := call(t, t.Context(), append(args, "--input", "clips=@"+video, "--input", "clips=job_1", "--input",
			"clips=job_2.video", "--input", "sound=@"+sound, "--param", "title=x")...)

		require.Zero(t, status, errs)
		require.Equal(t, "job_1\n", out)
		require.Equal(t, []string{"video/mp4", "audio/mp4"}, r.types)
		require.Len(t, r.uploaded, 2)
		require.JSONEq(t, `{"clips": ["art_1", "job_1", "job_2.video"], "sound": "art_2", "title": "x"}`, r.params)
		require.Nil(t, r.prompt)
	})

	t.Run("AreAListOfOneIfTheModelTakesAList", func(t *testing.T) {
		t.Parallel()

		r, args := serve(t)
		status, _, errs := call(t, t.Context(), append(args, "--input", "clips=art_7", "--json")...)

		require.Zero(t, status, errs)
		require.JSONEq(t, `{"clips": ["art_7"]}`, r.params)
	})

	t.Run("AreNamedInTheAdviceIfTheResultIsUnknown", func(t *testing.T) {
		t.Parallel()

		r, args := serve(t)
		r.refuses = true
		status, _, errs := call(t, t.Context(), append(args, "--input", "clips=@"+video)...)

		require.Equal(t, 1, status)
		require.Contains(t, errs, "--input clips=art_1 instead of --input clips=@"+video)
	})

	t.Run("AreRefusedBeforeAnythingIsSent", func(t *testing.T) {
		t.Parallel()

		for bad, reason := range map[string]string{
			"clips":          "write name=@file",
			"=@" + video:     "write name=@file",
			"clips=":         "write name=@file",
			"clips=" + video: "write clips=@" + video,
			"clips=@" + text: "nor an MP4",
			"image=@" + heic: "photo.heic cannot be used: it is HEIC: convert it to JPEG, PNG or WebP",
			"clips=@nowhere": "no such file",
			"title=art_1":    "given twice",
		} {
			r, args := serve(t)
			status, _, errs := call(t, t.Context(), append(args, "--param", "title=x", "--input", "sound=@"+sound, "--input", bad)...)

			require.NotZero(t, status, bad)
			require.Contains(t, errs, reason)
			require.Empty(t, r.types, bad)
		}
	})
}
