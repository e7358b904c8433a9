package videos

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestSplitKey(t *testing.T) {
	t.Parallel()

	for key, want := range map[string][]string{
		"prompt": {"prompt"}, "input_reference[file_id]": {"input_reference", "file_id"}, "characters[][id]": {"characters", "", "id"},
		"characters[0][id]": {"characters", "0", "id"}, "a[]": {"a", ""},
		"": nil, "[a]": nil, "a[": nil, "a[b": nil, "a]": nil, "a[b]c": nil, "a[b[c]]": nil, "a[b][": nil, "a[][][][]": nil,
		strings.Repeat("a", 129): nil,
	} {
		require.Equal(t, want, splitKey(key), key)
	}
}

// stored keeps a stored file.
type stored struct{ contentType, data string }

func (s *stored) Put(_ context.Context, _ jobs.Principal, contentType string, body io.Reader) (*models.Artifact, error) {
	data, err := io.ReadAll(body)
	s.contentType, s.data = contentType, string(data)
	return &models.Artifact{ID: "art_1"}, err
}

func TestPut(t *testing.T) {
	t.Parallel()

	model := &catalogue.Model{Name: "m", Schema: json.RawMessage(`{"properties": {"referenceImage": {}}}`)}
	const png = "\x89PNG\r\n\x1a\n"

	t.Run("StoresFilesAndKeepsNames", func(t *testing.T) {
		t.Parallel()

		for _, c := range []struct {
			given any
			want  string
			kept  stored
		}{
			{&file{"image/webp", []byte("x")}, "art_1", stored{"image/webp", "x"}},
			{&file{"Image/PNG; q=1", []byte("x")}, "art_1", stored{"image/png", "x"}},
			{&file{"application/octet-stream", []byte(png)}, "art_1", stored{"image/png", png}},
			{fields{"image_url": "data:image/png;base64,iVBORw0KGgo="}, "art_1", stored{"image/png", png}},
			{fields{"image_url": "https://example.com/a.png"}, "https://example.com/a.png", stored{}},
			{fields{"file_id": "art_2"}, "art_2", stored{}},
		} {
			kept := stored{}
			a := &api{Config: Config{Inputs: &kept}}
			image, err := readReference(fields{"input_reference": c.given})
			require.NoError(t, err)

			name, err := a.put(t.Context(), jobs.Principal{}, model, image)

			require.NoError(t, err)
			require.Equal(t, c.want, name)
			require.Equal(t, c.kept, kept)
		}
	})

	t.Run("IsRefusedIfTheModelAcceptsNone", func(t *testing.T) {
		t.Parallel()

		a := &api{Config: Config{Inputs: &stored{}}}

		_, err := a.put(t.Context(), jobs.Principal{}, &catalogue.Model{Name: "m", Schema: json.RawMessage(`{}`)}, &reference{at: "art_2"})

		require.ErrorContains(t, err, "does not take an input reference")
	})

	t.Run("RecognizesAFileByItsBytes", func(t *testing.T) {
		t.Parallel()

		one, other := &reference{file: &file{"image/png", []byte("1")}}, &reference{file: &file{"image/png", []byte("2")}}

		require.Equal(t, one.identity(), (&reference{file: &file{"image/png", []byte("1")}}).identity())
		require.NotEqual(t, one.identity(), other.identity())
		require.NotEqual(t, one.identity(), (*reference)(nil).identity())
	})
}

func TestSizeOf(t *testing.T) {
	t.Parallel()

	for params, want := range map[string]string{
		`{"resolution": "480p", "aspectRatio": "16:9"}`: "854x480", `{"resolution": "720p", "aspectRatio": "9:16"}`: "720x1280",
		`{"resolution": "1080p", "aspectRatio": "1:1"}`: "1080x1080", `{"size": "1024x1792", "resolution": "480p"}`: "1024x1792",
		`{}`: "", `[]`: "", `{"resolution": "4k"}`: "", `{"resolution": "480p", "aspectRatio": "0:0"}`: "",
		`{"resolution": "480p", "aspectRatio": "x"}`: "",
	} {
		require.Equal(t, want, sizeOf(json.RawMessage(params)), params)
	}
}

func TestReadModels(t *testing.T) {
	t.Parallel()

	catalogue, err := catalogue.Load()
	require.NoError(t, err)
	m, err := ReadModels(" sora-2 = testcard ,sora-2-pro=drill,")
	require.NoError(t, err)
	for name, want := range map[string]string{
		"sora-2": "testcard", "sora-2-pro": "drill", "sora-2-pro-2025-10-06": "drill", "testcard": "testcard",
	} {
		model, target, err := m.find(catalogue, name)
		require.NoError(t, err)
		require.Equal(t, want, model.Name)
		require.Equal(t, want, target)
	}
	require.Empty(t, m.Unknown(catalogue))
	require.Equal(t, "wan", Models{"a": "wan"}.Unknown(catalogue))
	_, _, err = m.find(catalogue, "sora-2-2025")
	require.ErrorContains(t, err, "Supported models are: sora-2, sora-2-pro, testcard, drill, ltx-video, ltx-image, wan-1.3b, wan-image-14b.")
	_, _, err = Models{}.find(catalogue, "sora-2")
	require.ErrorContains(t, err, "use model='testcard', or ask its operator to set REELAY_VIDEO_MODELS")
	for wrong, says := range map[string]string{
		"sora-2": "not of the form NAME=MODEL", "=testcard": "not of the form NAME=MODEL", "sora-2=": "not of the form NAME=MODEL",
		"a=testcard,a=testcard": "twice",
	} {
		_, err := ReadModels(wrong)
		require.ErrorContains(t, err, says)
	}
}

func FuzzReadMultipart(f *testing.F) {
	f.Add("--b\r\nContent-Disposition: form-data; name=\"prompt\"\r\n\r\nx\r\n--b--\r\n")
	f.Add("--b\r\nContent-Disposition: form-data; name=\"input_reference\"; filename=\"a.png\"\r\nContent-Type: image/png\r\n\r\nx\r\n--b--\r\n")
	f.Add("--b\r\nContent-Disposition: form-data; name=\"input_reference[image_url]\"\r\n\r\ndata:image/png;base64,AA==\r\n--b--")
	f.Add("--b\r\nContent-Disposition: form-data; name=\"a[][b]\"\r\n\r\n\r\n--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\r\n--b--")
	f.Add("--b\r\n\r\n--b--")
	f.Fuzz(func(t *testing.T, body string) {
		tree, err := readMultipart(strings.NewReader(body), "b")
		examine(t, tree, err)
	})
}

func FuzzReadJSON(f *testing.F) {
	f.Add(`{"prompt": "x", "seconds": 4, "input_reference": {"image_url": "data:image/png;base64,AA=="}}`)
	f.Add(`{"input_reference": {"file_id": ["x"]}}`)
	f.Add(`{"a": {"b": {"c": [1e999, null]}}}`)
	f.Fuzz(func(t *testing.T, body string) {
		tree, err := readJSON(strings.NewReader(body))
		examine(t, tree, err)
	})
}

// examine reads everything that a create reads: every error must be the caller's.
func examine(t *testing.T, tree fields, err error) {
	check := func(err error) {
		if err == nil {
			return
		}
		f := asFault(t.Context(), "", err)
		require.GreaterOrEqual(t, f.status, 400)
		require.Less(t, f.status, 500, err)
		require.True(t, utf8.ValidString(f.message) && utf8.ValidString(f.param))
		require.Less(t, len(f.message), 300)
	}
	check(err)
	if err != nil {
		return
	}
	check(tree.only("", "prompt"))
	_, err = readPrompt(tree)
	check(err)
	_, err = tree.digits("seconds")
	check(err)
	image, err := readReference(tree)
	check(err)
	image.identity()
}
