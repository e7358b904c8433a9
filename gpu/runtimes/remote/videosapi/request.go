package videosapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/textproto"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/gpu/runtimes/remote"
	"github.com/reelay/reelay/internal/videoengine"
)

const maxFiles = 100 << 20 // bytes of all files of a request

// encode returns the body of the request and its content type. It has the prompt, the parameters
// that the settings map, the files, and what the settings fix: nothing else of the customer's.
func encode(settings *videoengine.Settings, job *remote.Job) (body []byte, kind string, err error) {
	fields := maps.Clone(settings.Fixed)
	if fields == nil {
		fields = map[string]any{}
	}
	fields["prompt"] = job.Prompt
	if settings.Model != "" {
		fields["model"] = settings.Model
	}
	files := map[string]string{} // by field
	for param, value := range job.Params {
		field := settings.Fields[param]
		if field == "" || value == nil {
			continue
		}
		if path, isFile := job.Inputs[param]; isFile {
			files[field] = path
			continue
		}
		if _, isText := value.(string); isText || field != "input_reference" {
			fields[field] = value
		}
	}
	if settings.Request == videoengine.JSON {
		return encodeJSON(fields, files)
	}
	return encodeForm(fields, files)
}

func encodeJSON(fields map[string]any, files map[string]string) ([]byte, string, error) {
	for field, path := range files {
		data, err := read(path)
		if err != nil {
			return nil, "", err
		}
		fields[field] = "data:" + contentType(path) + ";base64," + base64.StdEncoding.EncodeToString(data)
	}
	if seconds, ok := fields["seconds"].(json.Number); ok {
		fields["seconds"] = seconds.String() // OpenAI has it as a text
	}
	body, err := json.Marshal(fields)
	return body, "application/json", err
}

func encodeForm(fields map[string]any, files map[string]string) ([]byte, string, error) {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		text, ok := fields[field].(string)
		if !ok {
			encoded, err := json.Marshal(fields[field])
			if err != nil {
				return nil, "", err
			}
			text = string(encoded)
		}
		if err := form.WriteField(field, text); err != nil {
			return nil, "", err
		}
	}
	for _, field := range slices.Sorted(maps.Keys(files)) {
		data, err := read(files[field])
		if err != nil {
			return nil, "", err
		}
		header := textproto.MIMEHeader{}
		names := map[string]string{"name": field, "filename": "input" + filepath.Ext(files[field])}
		header.Set("Content-Disposition", mime.FormatMediaType("form-data", names))
		header.Set("Content-Type", contentType(files[field]))
		part, err := form.CreatePart(header)
		if err == nil {
			_, err = part.Write(data)
		}
		if err != nil {
			return nil, "", err
		}
	}
	err := form.Close()
	return body.Bytes(), form.FormDataContentType(), err
}

func contentType(path string) string {
	if kind := mime.TypeByExtension(strings.ToLower(filepath.Ext(path))); kind != "" {
		return kind
	}
	return "application/octet-stream"
}

func read(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFiles+1))
	if err == nil && len(data) > maxFiles {
		err = runtime.Failf(runtime.InvalidInput, "A file of the job has over %d MB, which no engine of this kind takes.", maxFiles>>20)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read a file of the job: %w", err)
	}
	return data, nil
}
